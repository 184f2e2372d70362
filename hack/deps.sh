#!/usr/bin/env bash
# Copyright The Lockstead Authors.
# SPDX-License-Identifier: Apache-2.0

# Makes sure that programs are there:
#   hack/deps.sh buildah pgbouncer postgresql
# As root on Debian or Ubuntu it installs the packages of those that are missing; elsewhere it names them.
set -euo pipefail

missing=()
for program in "$@"; do
  case $program in
    buildah | pgbouncer) package=$program ;;
    # Its programs are in no PATH: the caller has looked.
    postgresql) missing+=(postgresql); continue ;;
    *) echo "hack/deps.sh: unknown program $program" >&2; exit 2 ;;
  esac
  # /usr/sbin is not in the PATH of every user.
  PATH=$PATH:/usr/sbin:/sbin command -v "$program" >/dev/null || missing+=("$package")
done
((${#missing[@]})) || exit 0

if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
  echo "missing programs; please install these packages (Debian's names): ${missing[*]}" >&2
  exit 1
fi

echo "installing ${missing[*]} ..." >&2
# A package that brings a service starts it when it is installed. Only the program is wanted here.
policy=/usr/sbin/policy-rc.d
if [[ ! -e $policy ]]; then
  printf '#!/bin/sh\nexit 101\n' > "$policy"
  chmod +x "$policy"
  trap 'rm -f "$policy"' EXIT
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq >&2
apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
