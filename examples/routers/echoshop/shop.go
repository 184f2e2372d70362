// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package echoshop

import (
	"errors"
	"io"
	"net/http"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/lockstead/lockstead/examples/routers/shop"
	"github.com/lockstead/lockstead/pkg/idempotency"
)

// Handler serves the shop.
func Handler(g *idempotency.Guard, s shop.Shop) http.Handler {
	h := handlers{s}
	e := echo.New()
	e.Use(middleware.Recover()) // Outside: a panic passes through the guard, which frees the key.
	v1 := e.Group("/v1")
	v1.GET("/accounts/:account/orders", h.list)
	v1.POST("/accounts/:account/orders", h.order, Declare(g, shop.Orders))
	v1.POST("/accounts/:account/refunds", h.refund, Declare(g, shop.Refunds))
	v1.POST("/sessions", h.login, Declare(g, shop.Sessions))
	return e
}

type handlers struct{ shop shop.Shop }

func (handlers) list(c *echo.Context) error {
	return c.String(http.StatusOK, "orders of "+c.Param("account"))
}

func (h handlers) order(c *echo.Context) error {
	item, err := io.ReadAll(c.Request().Body)
	if err != nil {
		return echo.NewHTTPError(http.StatusBadRequest, "the body ended early")
	}
	id, err := h.shop.Order(c.Request().Context(), c.Param("account"), string(item))
	switch {
	case errors.Is(err, shop.ErrSoldOut):
		return echo.NewHTTPError(http.StatusGone, err.Error())
	case err != nil:
		return err
	}
	c.Response().Header().Set("Location", "/v1/accounts/"+c.Param("account")+"/orders/"+id)
	return c.String(http.StatusCreated, "order "+id)
}

func (h handlers) refund(c *echo.Context) error {
	if _, err := h.shop.Refund(c.Request().Context(), c.Param("account"), c.QueryParam("amount")); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

func (h handlers) login(c *echo.Context) error {
	token, err := h.shop.Login(c.Request().Context())
	if err != nil {
		return err
	}
	return c.String(http.StatusCreated, token)
}
