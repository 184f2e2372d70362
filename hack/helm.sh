#!/usr/bin/env bash
# Copyright The Lockstead Authors.
# SPDX-License-Identifier: Apache-2.0

# Prints the path of Helm: $HELM, else the one in the PATH, else one that is built once (see tool.sh).
set -euo pipefail

if [[ -n ${HELM:-} ]]; then
  command -v "$HELM" || { echo "hack/helm.sh: HELM=$HELM is not a program" >&2; exit 1; }
elif ! command -v helm; then
  exec "$(dirname "${BASH_SOURCE[0]}")/tool.sh" helm
fi
