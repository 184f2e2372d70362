-- +goose Up
CREATE TABLE bills (
    id     bigint PRIMARY KEY,
    amount bigint NOT NULL
);

-- +goose Down
DROP TABLE bills;
