#!/usr/bin/env bash
# Copyright The Lockstead Authors.
# SPDX-License-Identifier: Apache-2.0

# Builds an image from a Dockerfile and writes it as an archive that containerd, docker and podman can load:
#   hack/image.sh <name:tag> <Dockerfile> <archive.tar>
# Uses docker or podman if one works here, else buildah, which needs neither a daemon nor a registry.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

name=${1:?"usage: hack/image.sh <name:tag> <Dockerfile> <archive.tar>"} dockerfile=${2:?} archive=${3:?}
mkdir -p "$(dirname "$archive")"
rm -f "$archive"

for tool in docker podman; do
  if command -v "$tool" >/dev/null && "$tool" info >/dev/null 2>&1; then
    "$tool" build --quiet --tag "$name" --file "$dockerfile" . >/dev/null
    "$tool" save --output "$archive" "$name"
    echo "$archive"
    exit
  fi
done

hack/deps.sh buildah
# A store of its own, removed at the end: nothing stays on the machine but the archive.
store=$(mktemp -d)
trap 'rm -rf "$store"' EXIT
buildah=(buildah --root "$store/root" --runroot "$store/run" --storage-driver vfs)
"${buildah[@]}" bud --quiet --isolation chroot --tag "$name" --file "$dockerfile" . >/dev/null
"${buildah[@]}" push --quiet "$name" "oci-archive:$archive:$name" >/dev/null
echo "$archive"
