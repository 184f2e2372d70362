// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package shop

import (
	"context"
	_ "embed" // The schema.
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockstead/lockstead/pkg/idempotency"
)

// Schema is the SQL that makes the table. It may be run again.
//
//go:embed schema.sql
var Schema string

// Order is what a customer has bought.
type Order struct {
	ID        string    `json:"id"`
	Item      string    `json:"item"`
	Quantity  int       `json:"quantity"`
	CreatedAt time.Time `json:"createdAt"`
}

// ErrNoOrder says that the customer has no order with this id.
var ErrNoOrder = errors.New("there is no such order")

// Orders are the rows of the table. They are safe for concurrent use.
type Orders struct{ pool *pgxpool.Pool }

// NewOrders are those of a database, in which Schema was run.
func NewOrders(pool *pgxpool.Pool) *Orders { return &Orders{pool: pool} }

const columns = `id, item, quantity, created_at`

// Create writes the order of an operation, or finds the one that an earlier execution of the operation has written: created tells which. An execution before this one
// may have died, or lost its claim, after it had written the order and before its answer was kept. The column operation is unique, so there is one order all the same.
//
// The insertion is one statement. In a transaction of several, an execution that is stopped in the middle would keep those that follow it waiting.
func (o *Orders) Create(ctx context.Context, operation idempotency.Key, customer string, wanted Order) (order Order, created bool, err error) {
	order, err = scan(o.pool.QueryRow(ctx, `
INSERT INTO orders (operation, customer, item, quantity) VALUES ($1, $2, $3, $4)
ON CONFLICT (operation) DO NOTHING RETURNING `+columns, operation[:], customer, wanted.Item, wanted.Quantity))
	if errors.Is(err, ErrNoOrder) {
		order, err = scan(o.pool.QueryRow(ctx, `SELECT `+columns+` FROM orders WHERE operation = $1`, operation[:]))
		return order, false, err
	}
	return order, err == nil, err
}

// Get reads an order of a customer. The error is ErrNoOrder, or a fault of the database.
func (o *Orders) Get(ctx context.Context, customer, id string) (Order, error) {
	return scan(o.pool.QueryRow(ctx, `SELECT `+columns+` FROM orders WHERE id = $1 AND customer = $2`, id, customer))
}

func scan(row pgx.Row) (Order, error) {
	var order Order
	switch err := row.Scan(&order.ID, &order.Item, &order.Quantity, &order.CreatedAt); {
	case errors.Is(err, pgx.ErrNoRows):
		return Order{}, ErrNoOrder
	case err != nil:
		return Order{}, fmt.Errorf("orders: %w", err)
	}
	order.CreatedAt = order.CreatedAt.UTC()
	return order, nil
}
