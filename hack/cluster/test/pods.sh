#!/usr/bin/env bash
# Copyright The Lockstead Authors.
# SPDX-License-Identifier: Apache-2.0

# Checks on the running cluster that pods, volumes, Services, names, logs, exec
# and port-forward work, and that all of it can be deleted again.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
run=$here/../run
namespace=cluster-test

fail() {
  echo "FAILED: $*" >&2
  "$run" kubectl -n $namespace get pods,pvc,events >&2 || true
  exit 1
}
kubectl() { timeout 120 "$run" kubectl "$@"; }
say() { printf '%3ds  %s\n' "$SECONDS" "$*"; }

# Waits until the command succeeds; the limit is for a slow machine.
eventually() {
  for ((i = 0; i < 300; i++)); do
    if "$@"; then return; fi
    sleep 0.2
  done
  fail "still not so after a minute: $*"
}
counter() { kubectl -n $namespace exec redis-0 -- redis-cli -h redis.$namespace.svc.cluster.local get counter; }
counts() { local seen; seen=$(counter 2>/dev/null) && ((seen > $1)); }
logs_of_a_client() { kubectl -n $namespace logs deployment/client --tail=5 2>/dev/null | grep '^[0-9]' >/dev/null; }

"$run" up >/dev/null
forward=
trap '[[ -z $forward ]] || kill "$forward"; kubectl delete namespace $namespace --ignore-not-found --wait=false >/dev/null' EXIT
sed "s|REDIS_IMAGE|$("$run" image redis)|" "$here/pods.yaml" | kubectl apply -f - >/dev/null
kubectl -n $namespace rollout status statefulset/redis --timeout=60s >/dev/null
say "a StatefulSet with a volume is ready"
kubectl -n $namespace rollout status deployment/client --timeout=60s >/dev/null
eventually counts 10
say "three replicas reach it through the Service by its name, and exec works"
eventually logs_of_a_client
say "logs work"

output=$(mktemp)
"$run" kubectl -n $namespace port-forward --address 127.0.0.1 service/redis :6379 >"$output" &
forward=$!
eventually grep -q 'Forwarding from' "$output"
port=$(sed -n 's/^Forwarding from 127.0.0.1:\([0-9]*\) .*/\1/p' "$output")
[[ $(redis-cli -h 127.0.0.1 -p "$port" ping) == PONG ]] || fail "port-forward"
kill "$forward"
wait "$forward" 2>/dev/null || true
forward=
rm -f "$output"
say "port-forward works"

before=$(counter)
kubectl -n $namespace delete pod redis-0 >/dev/null
kubectl -n $namespace rollout status statefulset/redis --timeout=60s >/dev/null
eventually counts "$before"
say "a deleted pod comes back with its data"

kubectl delete namespace $namespace --timeout=60s >/dev/null
no_volumes() { [[ -z $(kubectl get persistentvolumes --output=name) ]]; }
eventually no_volumes
state=$(dirname "$("$run" kubeconfig)")
[[ -z $(ls -A "$state/volumes") ]] || fail "folders of volumes are left in $state/volumes"
say "the namespace and its volume are gone"
