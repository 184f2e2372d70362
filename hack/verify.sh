#!/usr/bin/env bash
# Copyright The Lockstead Authors.
# SPDX-License-Identifier: Apache-2.0

# Regenerates everything that is generated and fails when that changes, adds or removes a file.
# The state before is compared with the state after, so uncommitted work does not disturb; with CI=true the
# result must also be what is committed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

state() {
  git ls-files -z --cached --others --exclude-standard |
    while IFS= read -r -d '' file; do [[ -f $file ]] && printf '%s\0' "$file"; done |
    xargs -0 sha256sum | sort -k2
}

before=$(mktemp) after=$(mktemp)
trap 'rm -f "$before" "$after"' EXIT
state > "$before"
"${MAKE:-make}" --no-print-directory generate manifests
state > "$after"

if ! cmp -s "$before" "$after"; then
  echo "verify: generated files were not up to date; run 'make generate manifests' and commit:" >&2
  { diff "$before" "$after" || true; } | awk '/^[<>]/ {print "  " $3}' | sort -u >&2
  exit 1
fi
if [[ ${CI:-} == true && -n $(git status --porcelain) ]]; then
  echo "verify: the work tree differs from what is committed:" >&2
  git status --porcelain >&2
  exit 1
fi

# A module file that is not tidy builds here and fails for those who import the module.
failed=0
for dir in $(go list -m -f '{{.Dir}}'); do
  (cd "$dir" && GOWORK=off go mod tidy -diff) || { echo "verify: run 'go mod tidy' in $dir" >&2; failed=1; }
done
exit "$failed"
