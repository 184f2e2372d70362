-- What package pglock needs in a database. It may be run again: it changes nothing that is there.
-- "lockstead" stands for the schema; pglock.SchemaSQL writes another name in its place.

CREATE SCHEMA IF NOT EXISTS "lockstead";

-- A row is a lock that is held, or one that ran out and that nobody has taken or swept away since.
CREATE TABLE IF NOT EXISTS "lockstead".locks (
    prefix     bytea       NOT NULL,
    name       bytea       NOT NULL,
    -- The number of the advisory lock: see pglock.KeyHash.
    hash       bigint      NOT NULL,
    -- The acquisition id of the holder.
    id         text        NOT NULL,
    -- For people.
    owner      text        NOT NULL,
    epoch      bigint      NOT NULL,
    token      bigint      NOT NULL,
    since      timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (prefix, name)
);

CREATE INDEX IF NOT EXISTS locks_expires_at ON "lockstead".locks (expires_at);

-- The second part of a fencing token.
CREATE SEQUENCE IF NOT EXISTS "lockstead".fence AS bigint;

-- One row: the first part of a fencing token, and what is known of the server that it belongs to.
CREATE TABLE IF NOT EXISTS "lockstead".epoch (
    one        boolean     PRIMARY KEY DEFAULT true CHECK (one),
    -- Grows whenever the database may have lost what it knew.
    epoch      bigint      NOT NULL,
    -- System identifier and timeline of the server. A restored backup and a promoted replica have others.
    server     text        NOT NULL DEFAULT '',
    -- Nothing is granted before.
    not_before timestamptz NOT NULL DEFAULT '-infinity',
    -- The longest TTL that is granted, and so the wait after the server was exchanged.
    max_ttl    interval    NOT NULL DEFAULT '10 minutes' CHECK (max_ttl > interval '0')
);

INSERT INTO "lockstead".epoch (epoch) VALUES (floor(extract(epoch FROM clock_timestamp()))::bigint) ON CONFLICT DO NOTHING;
