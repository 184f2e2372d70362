#!/usr/bin/env bash
# Copyright The Lockstead Authors.
# SPDX-License-Identifier: Apache-2.0

# Kills `up`, or the node itself, at many points with a signal that it cannot
# handle, runs `down`, and checks that the machine is as it was: no process,
# mount, network device, route, firewall rule, control group, kernel setting or
# file is left. Uses a cluster of its own beside any other.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
run=$here/../run
export LOCKSTEAD_CLUSTER=leftovers
unset CLUSTER
work=$(mktemp -d)
trap 'rm -rf "$work"; "$run" down 2>/dev/null' EXIT

state=$(dirname "$("$run" kubeconfig)")
say() { printf '%3ds  %s\n' "$SECONDS" "$*"; }

# Prints all that a node could change outside its namespaces.
snapshot() {
  echo "# mounts"
  cut -d' ' -f5- /proc/self/mountinfo | sort
  echo "# links, addresses, routes"
  ip -o link | cut -d' ' -f2,3 | sort
  ip -o address | awk '{print $2, $4}' | sort
  ip route | sort
  echo "# firewall"
  # Counters change by themselves.
  { iptables-save || true; } 2>/dev/null | sed -e '/^#/d' -e 's/\[[0-9:]*\]//'
  { ip6tables-save || true; } 2>/dev/null | sed -e '/^#/d' -e 's/\[[0-9:]*\]//'
  echo "# kernel settings"
  for setting in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys \
    kernel/keys/root_maxbytes kernel/hostname net/ipv4/ip_forward net/netfilter/nf_conntrack_max; do
    echo "$setting $(cat /proc/sys/$setting 2>/dev/null)"
  done
  echo "# files, of which a node might make some at fixed paths"
  ls -A /run /run/netns /var/lib /var/log /var/lib/cni /etc/cni /opt /tmp/hostpath_pv 2>/dev/null || true
}

# Prints what belongs to this test's cluster alone, of which nothing may be left.
remains() {
  local file
  # The pattern comes from a file, or grep would find itself.
  while read -r file; do
    # A zombie holds nothing; when it goes is up to its parent.
    grep -q '^State:.Z' "${file%/*}/status" 2>/dev/null && continue
    [[ ! -e $file ]] || echo "process $file: $(tr '\0' ' ' 2>/dev/null <"${file%/*}/cmdline")"
  done < <(grep -slaF -f "$work/signs" /proc/[0-9]*/cgroup /proc/[0-9]*/cmdline)
  find /sys/fs/cgroup -type d -name 'lockstead-leftovers-*'
  grep -F "$state" /proc/self/mountinfo || true
  if [[ -e $state ]]; then echo "$state"; fi
}

check() {
  "$run" down 2>/dev/null
  remains >"$work/remains"
  snapshot >"$work/after"
  if [[ -s $work/remains ]] || ! diff "$work/before" "$work/after" >"$work/difference"; then
    echo "FAILED: left after: $1" >&2
    cat "$work/remains" "$work/difference" >&2
    exit 1
  fi
  say "nothing left after: $1"
}

# Starts `up` and returns once the condition holds; sets up_pid.
start_until() {
  "$run" up >"$work/up.log" 2>&1 &
  up_pid=$!
  while ! "$@"; do
    if ! kill -0 "$up_pid" 2>/dev/null && ! "$@"; then
      echo "FAILED: up ended before: $*" >&2
      cat "$work/up.log" >&2
      exit 1
    fi
    sleep 0.005
  done
}
up() {
  "$run" up >"$work/up.log" 2>&1 && return
  echo "FAILED: up" >&2
  cat "$work/up.log" "$state/logs/node.log" >&2
  exit 1
}
kill_up() { kill -KILL "$up_pid" 2>/dev/null || true; wait "$up_pid" 2>/dev/null || true; }
reached() { grep -qsF "$1" "$state/progress"; }
running_pod() { [[ -n $(find /sys/fs/cgroup -type d -path '*lockstead-leftovers-*/kubepods/*/pod*' -print -quit 2>/dev/null) ]]; }

printf '%s\n' /lockstead-leftovers- "$state" >"$work/signs"
"$run" down 2>/dev/null
remains >"$work/remains"
[[ ! -s $work/remains ]] || { cat "$work/remains" >&2; exit 1; }
snapshot >"$work/before"

for point in "-d $state" "-e $state/kubeconfig" "-e $state/spec.json" "-e $state/logs/node.log" "-e $state/node.json"; do
  # shellcheck disable=SC2086 # An operator and its operand.
  start_until test $point
  kill_up
  check "up killed when [ ${point/$state\//} ]"
done
for step in "namespaces, mounts" "etcd answers" "images are imported" "the API server is ready" "CoreDNS answers"; do
  start_until reached "$step"
  kill_up
  check "up killed when $step"
done

start_until reached "the API server is ready"
kill_up
up
check "up killed, up again, down"

start_until reached "etcd answers"
kill -KILL "$(sed 's/.*"pid":\([0-9]*\).*/\1/' "$state/node.json")"
wait "$up_pid" 2>/dev/null && { echo "FAILED: up did not notice that its node was killed" >&2; exit 1; }
check "the node killed while it started"

up
"$run" kubectl create deployment redis --image="$("$run" image redis)" >/dev/null
while ! running_pod; do sleep 0.1; done
"$run" kubectl wait --for=condition=Available deployment/redis --timeout=60s >/dev/null
check "pods ran"
say "ok: cluster-down leaves nothing behind"
