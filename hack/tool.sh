#!/usr/bin/env bash
# Copyright The Lockstead Authors.
# SPDX-License-Identifier: Apache-2.0

# Prints the path of a development tool, and builds it first if it is missing:
#   hack/tool.sh controller-gen | golangci-lint | helm
# Versions are pinned in the go.mod of each tool's folder under hack/tools.
# Only the path goes to standard output.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${LOCKSTEAD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/lockstead}

name=${1:?"usage: hack/tool.sh <tool>"}
# The last element of the package's path.
program_package=$name
case $name in
  controller-gen) dir=$here/tools estimate="under a minute" ;;
  # golangci-lint as kube-api-linter builds it, which is with itself in it.
  golangci-lint) dir=$here/tools/lint program_package=golangci-lint-kube-api-linter estimate="3 to 10 minutes" ;;
  helm) dir=$here/tools/helm estimate="3 to 10 minutes" ;;
  *) echo "hack/tool.sh: unknown tool $name" >&2; exit 2 ;;
esac

key=$(cd "$dir" && { go env GOVERSION GOOS GOARCH; cat go.mod go.sum; } | sha256sum | cut -c1-12)
program=$cache/bin/$name-$key/$name

if [[ ! -x $program ]]; then
  # The tool lines of the modfile name the package to build.
  package=$(cd "$dir" && GOWORK=off go list tool | grep "/$program_package\$")
  version=$(cd "$dir" && GOWORK=off go list -f '{{.Module.Version}}' "$package")
  echo "building $name $version once, into $cache ($estimate on two cores) ..." >&2
  mkdir -p "${program%/*}"
  started=$SECONDS
  ldflags="-s -w"
  # Without this Helm reports itself, and the capabilities that charts see, as an unreleased version.
  [[ $name == helm ]] && ldflags+=" -X helm.sh/helm/v4/internal/version.version=$version"
  # Built beside its place and renamed, so that a second caller never sees half of it.
  # GOFLAGS is emptied because the binary is shared: what a user's flags would change must not end up in the cache.
  GOFLAGS='' GOWORK=off CGO_ENABLED=0 go build -C "$dir" -mod=readonly -trimpath -ldflags "$ldflags" -o "$program.$$" "$package" >&2
  mv "$program.$$" "$program"
  echo "built $name in $((SECONDS - started)) s" >&2
fi
echo "$program"
