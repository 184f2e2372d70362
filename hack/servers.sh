#!/usr/bin/env bash
# Copyright The Lockstead Authors.
# SPDX-License-Identifier: Apache-2.0

# Prints the servers that the tests run against, one a line as <name>=<path>, and unpacks those that are missing first:
#   hack/servers.sh [redis-7.0] [redis-8.0] [valkey-8.1]
# Without arguments it prints all. The programs are those of Debian's packages, verified with Debian's keys, with the C library and all else
# of their own release, so that the release of this machine does not matter. Nothing is installed, and root is not needed.
# The packages come from the mirror that this machine's own package sources name, or from LOCKSTEAD_DEBIAN_MIRROR.
set -euo pipefail

cache=${LOCKSTEAD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/lockstead}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

fail() { echo "hack/servers.sh: $*" >&2; exit 1; }

# release_of prints the Debian release that has a server.
release_of() {
  case $1 in
    redis-7.0) echo bookworm ;;
    redis-8.0 | valkey-8.1) echo trixie ;;
    *) fail "unknown server $1; there are redis-7.0, redis-8.0 and valkey-8.1" ;;
  esac
}

# mirror prints the address of the Debian archive.
mirror() {
  [[ -z ${LOCKSTEAD_DEBIAN_MIRROR:-} ]] || { echo "$LOCKSTEAD_DEBIAN_MIRROR"; return; }
  apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -m1 -E '/debian/?$' ||
    fail "the package sources of this machine name no mirror of Debian's archive: set LOCKSTEAD_DEBIAN_MIRROR to the address of one"
}

# unpack <release> <folder> <name>=<program>... unpacks the packages of the programs, and what they need, into the folder, with a
# start script for each.
unpack() (
  release=$1 folder=$2
  shift 2
  for program in apt-get apt-cache dpkg-deb; do
    command -v "$program" >/dev/null || fail "there is no $program: this needs Debian or a system made from it. \
Elsewhere name your own servers: LOCKSTEAD_REDIS_SERVERS='redis-7.0=/path/to/redis-server;redis-8.0=…;valkey-8.1=…'"
  done
  [[ -r $keyring ]] || fail "there is no $keyring: install the package debian-archive-keyring"
  address=$(mirror)

  mkdir -p "$cache/servers"
  # Made beside its place and renamed, so that a second caller never sees half of it.
  temporary=$(mktemp -d "$cache/servers/unpack.XXXXXX")
  trap 'rm -rf "$temporary"' EXIT
  apt=$temporary/apt tree=$temporary/$release
  mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial" "$apt/packages" "$tree/bin"
  echo "deb [signed-by=$keyring] $address $release main" > "$apt/sources.list"
  # The machine's own settings stay in force, for example those of a proxy.
  options=(
    -qq
    -o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::Etc::preferencesparts=/dev/null
    -o Dir::State="$apt/state" -o Dir::State::status=/dev/null -o Dir::Cache="$apt/cache"
    -o Acquire::Languages=none -o APT::Sandbox::User="$(id -un)" -o Acquire::Retries=3
  )
  apt-get "${options[@]}" update >&2

  # The packages with the programs, and the libraries that they need, and so on; what a system needs beside them to run a service is left out.
  declare -A wanted=()
  queue=(redis-server redis-tools)
  [[ $release == bookworm ]] || queue+=(valkey-server valkey-tools)
  while ((${#queue[@]})); do
    package=${queue[0]} queue=("${queue[@]:1}")
    [[ -z ${wanted[$package]:-} ]] || continue
    wanted[$package]=1
    while read -r needed; do
      [[ $needed != lib* && $needed != lua-* ]] || queue+=("$needed")
    done < <(apt-cache "${options[@]}" depends --important "$package" | sed -nE 's/^[ |]*(Pre)?Depends: ([^<:]+).*/\2/p')
  done
  (cd "$apt/packages" && apt-get "${options[@]}" download "${!wanted[@]}" >&2)
  for package in "$apt"/packages/*.deb; do
    dpkg-deb -x "$package" "$tree"
  done
  rm -rf "$tree/usr/share/doc" "$tree/usr/share/man" "$tree/usr/share/locale"

  loader=$(cd "$tree" && find . -name 'ld-linux*.so.*' -type f -print -quit)
  [[ -n $loader ]] || fail "the C library of $release has no program loader"
  paths=$(cd "$tree" && find . -name '*.so.*' -printf '%h\n' | sort -u | sed "s|^\.|$folder|" | paste -sd:)
  for server in "$@"; do
    name=${server%%=*} program=/usr/bin/${server#*=}
    printf '#!/bin/sh\nexec %q --argv0 %q --library-path %q %q "$@"\n' \
      "$folder/${loader#./}" "$folder$program" "$paths" "$folder$program" > "$tree/bin/$name"
    chmod +x "$tree/bin/$name"
  done
  # A folder that another caller has made meanwhile is as good.
  mv -T "$tree" "$folder" 2>/dev/null || [[ -d $folder ]] || fail "cannot make $folder"
  for server in "$@"; do
    "$folder/bin/${server%%=*}" --version >&2 || { rm -rf "$folder"; fail "${server%%=*} of $release does not run on this machine"; }
  done
)

# The folder is of one state of this script on one architecture.
key=$({ uname -m; cat "${BASH_SOURCE[0]}"; } | sha256sum | cut -c1-12)
servers=("$@")
((${#servers[@]})) || servers=(redis-7.0 redis-8.0 valkey-8.1)
for server in "${servers[@]}"; do
  release=$(release_of "$server")
  folder=$cache/servers/$release-$key
  if [[ ! -x $folder/bin/$server ]]; then
    echo "unpacking the servers of Debian $release once, into $cache (under a minute) ..." >&2
    case $release in
      bookworm) unpack bookworm "$folder" redis-7.0=redis-server ;;
      trixie) unpack trixie "$folder" redis-8.0=redis-server valkey-8.1=valkey-server ;;
    esac
  fi
  echo "$server=$folder/bin/$server"
done
