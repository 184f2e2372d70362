-- +goose Up
ALTER TABLE bills ADD COLUMN paid_at timestamptz;
INSERT INTO bills (id, amount) VALUES (1, 0);

-- +goose Down
ALTER TABLE bills DROP COLUMN paid_at;
