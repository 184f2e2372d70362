#!/usr/bin/env bash
# Copyright The Lockstead Authors.
# SPDX-License-Identifier: Apache-2.0

# Prints the folder with the programs of a PostgreSQL server (initdb, postgres), the newest of this machine, and installs Debian's packages
# postgresql and pgbouncer first when they are missing. LOCKSTEAD_POSTGRES names another folder, for a machine without Debian's packages.
# The tests start servers of their own from it; the one that the package would run is not touched.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

hack/deps.sh pgbouncer >&2
if [[ -n ${LOCKSTEAD_POSTGRES:-} ]]; then
  [[ -x $LOCKSTEAD_POSTGRES/postgres && -x $LOCKSTEAD_POSTGRES/initdb ]] ||
    { echo "hack/postgres.sh: LOCKSTEAD_POSTGRES is $LOCKSTEAD_POSTGRES, which has no postgres and initdb" >&2; exit 1; }
  echo "$LOCKSTEAD_POSTGRES"
  exit
fi

newest() { find /usr/lib/postgresql -path '*/bin/postgres' 2>/dev/null | sort -V | tail -n 1; }

[[ -n $(newest) ]] || hack/deps.sh postgresql >&2
server=$(newest)
[[ -n $server ]] || { echo "hack/postgres.sh: no PostgreSQL below /usr/lib/postgresql: set LOCKSTEAD_POSTGRES to the folder with initdb and postgres" >&2; exit 1; }
dirname "$server"
