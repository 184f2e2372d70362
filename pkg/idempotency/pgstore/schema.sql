-- Copyright The Lockstead Authors.
-- SPDX-License-Identifier: Apache-2.0

-- Records of package pgstore. Rename the table if you like, and tell Options.Table.
CREATE TABLE IF NOT EXISTS idempotency_records (
    key         bytea       NOT NULL PRIMARY KEY CHECK (octet_length(key) = 32),
    state       smallint    NOT NULL,               -- 1 in flight, 2 done, 3 tombstone
    owner       text        NOT NULL,
    token       text        COLLATE "C" NOT NULL,   -- sorts as the fencing tokens do; empty without one
    fingerprint bytea       NOT NULL CHECK (octet_length(fingerprint) = 32),
    lease_until timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL,
    response    bytea
);
CREATE INDEX IF NOT EXISTS idempotency_records_expires_at ON idempotency_records (expires_at);
