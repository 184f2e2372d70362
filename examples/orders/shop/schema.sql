-- Copyright The Lockstead Authors.
-- SPDX-License-Identifier: Apache-2.0

CREATE TABLE IF NOT EXISTS orders (
    id         text        PRIMARY KEY DEFAULT gen_random_uuid()::text,
    operation  bytea       NOT NULL UNIQUE, -- idempotency.OperationKey: one order for one key of a client, whatever became of the record
    customer   text        NOT NULL,
    item       text        NOT NULL,
    quantity   integer     NOT NULL CHECK (quantity > 0),
    created_at timestamptz NOT NULL DEFAULT now()
);
