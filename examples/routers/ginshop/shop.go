// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package ginshop

import (
	"errors"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/lockstead/lockstead/examples/routers/shop"
	"github.com/lockstead/lockstead/pkg/idempotency"
)

// Handler serves the shop.
func Handler(g *idempotency.Guard, s shop.Shop) http.Handler {
	h := handlers{s}
	r := gin.New()
	r.HandleMethodNotAllowed = true
	r.Use(gin.Recovery()) // Outside: a panic passes through the guard, which frees the key.
	r.Use(answerErrors)
	v1 := r.Group("/v1")
	v1.GET("/accounts/:account/orders", h.list)
	v1.POST("/accounts/:account/orders", Declare(g, shop.Orders), h.order)
	v1.POST("/accounts/:account/refunds", Declare(g, shop.Refunds), h.refund)
	v1.POST("/sessions", Declare(g, shop.Sessions), h.login)
	return r
}

// answerErrors turns the errors of handlers into answers, as many applications do.
func answerErrors(c *gin.Context) {
	c.Next()
	if len(c.Errors) == 0 || c.Writer.Written() {
		return
	}
	if errors.Is(c.Errors.Last(), shop.ErrSoldOut) {
		c.String(http.StatusGone, shop.ErrSoldOut.Error())
		return
	}
	c.String(http.StatusInternalServerError, "something went wrong")
}

type handlers struct{ shop shop.Shop }

func (handlers) list(c *gin.Context) { c.String(http.StatusOK, "orders of "+c.Param("account")) }

func (h handlers) order(c *gin.Context) {
	item, err := c.GetRawData()
	if err != nil {
		c.String(http.StatusBadRequest, "the body ended early")
		return
	}
	id, err := h.shop.Order(c.Request.Context(), c.Param("account"), string(item))
	if err != nil {
		_ = c.Error(err) // It returns what it was given.
		return
	}
	c.Header("Location", "/v1/accounts/"+c.Param("account")+"/orders/"+id)
	c.String(http.StatusCreated, "order "+id)
}

func (h handlers) refund(c *gin.Context) {
	if _, err := h.shop.Refund(c.Request.Context(), c.Param("account"), c.Query("amount")); err != nil {
		_ = c.Error(err)
		return
	}
	c.Status(http.StatusNoContent)
}

func (h handlers) login(c *gin.Context) {
	token, err := h.shop.Login(c.Request.Context())
	if err != nil {
		_ = c.Error(err)
		return
	}
	c.String(http.StatusCreated, token)
}
