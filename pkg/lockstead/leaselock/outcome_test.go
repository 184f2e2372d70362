// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package leaselock

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lockstead/lockstead/pkg/lock/driver"
)

func TestOutcomeOfAFailure(t *testing.T) {
	leases := schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	reset := errors.New("connection reset by peer")
	terminating := apierrors.NewForbidden(leases, "lk-1", errors.New("being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, tc := range map[string]struct {
		failure failure
		outcome error
		reason  string
	}{
		"refused before anything was sent":  {failure{write: true, err: reset}, driver.ErrUnavailable, "connection"},
		"reset after the write":             {failure{write: true, sent: true, err: reset}, driver.ErrUnknown, "connection"},
		"reset of a read":                   {failure{sent: true, err: reset}, driver.ErrUnavailable, "connection"},
		"time-out of a write":               {failure{write: true, sent: true, err: context.Canceled, timeout: time.Second}, driver.ErrUnknown, "timeout"},
		"time-out before anything was sent": {failure{write: true, err: context.Canceled, timeout: time.Second}, driver.ErrUnavailable, "timeout"},
		"caller gone during a write":        {failure{write: true, sent: true, err: context.Canceled, caller: context.Canceled}, driver.ErrUnknown, "context"},
		"caller gone before a write":        {failure{write: true, err: context.Canceled, caller: context.Canceled}, driver.ErrUnavailable, "context"},
		"caller's deadline, other text":     {failure{write: true, sent: true, err: reset, caller: context.DeadlineExceeded}, driver.ErrUnknown, "context"},
		"500 on a write":                    {failure{write: true, sent: true, err: apierrors.NewInternalError(reset)}, driver.ErrUnknown, "server"},
		"500 on a read":                     {failure{sent: true, err: apierrors.NewInternalError(reset)}, driver.ErrUnavailable, "server"},
		"504 on a write":                    {failure{write: true, sent: true, err: apierrors.NewTimeoutError("x", 1)}, driver.ErrUnknown, "server"},
		"429 on a write":                    {failure{write: true, sent: true, err: apierrors.NewTooManyRequests("x", 1)}, driver.ErrUnavailable, "throttled"},
		"403":                               {failure{write: true, sent: true, err: apierrors.NewForbidden(leases, "lk-1", reset)}, driver.ErrUnavailable, "permission"},
		"403 of a quota":                    {failure{write: true, sent: true, err: apierrors.NewForbidden(leases, "lk-1", errors.New("exceeded quota: q"))}, driver.ErrUnavailable, "quota"},
		"403 of a terminating namespace":    {failure{write: true, sent: true, err: terminating}, driver.ErrUnavailable, "namespace-terminating"},
		"401":                               {failure{write: true, sent: true, err: apierrors.NewUnauthorized("x")}, driver.ErrUnavailable, "unauthorized"},
		"404 of the namespace":              {failure{write: true, sent: true, err: apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "n")}, driver.ErrUnavailable, "namespace-missing"},
		"404 of no Kubernetes API":          {failure{write: true, sent: true, err: apierrors.NewGenericServerResponse(http.StatusNotFound, "POST", leases, "", "404 page not found", 0, true)}, driver.ErrUnavailable, "not-found"},
		"400":                               {failure{write: true, sent: true, err: apierrors.NewBadRequest("x")}, driver.ErrUnavailable, "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.failure.op = "acquire"
			err := tc.failure.classify(newRemedies("payments", "payments/billing", ""))
			var store *driver.StoreError
			if !errors.As(err, &store) || store.Reason != tc.reason || store.Op != "acquire" {
				t.Fatalf("error %v, want reason %q", err, tc.reason)
			}
			for _, outcome := range []error{driver.ErrUnavailable, driver.ErrUnknown} {
				if got := errors.Is(err, outcome); got != errors.Is(tc.outcome, outcome) {
					t.Errorf("matches %q: %v", outcome, got)
				}
			}
			for _, end := range []error{context.Canceled, context.DeadlineExceeded} {
				if got := errors.Is(err, end); got != errors.Is(tc.failure.caller, end) {
					t.Errorf("matches %q: %v, but the caller's context says %v", end, got, tc.failure.caller)
				}
			}
		})
	}
}

func TestRemedyForMissingRights(t *testing.T) {
	message := `leases.coordination.k8s.io is forbidden: User "system:serviceaccount:payments:worker" cannot create resource "leases"`
	for name, tc := range map[string]struct {
		remedies remedies
		message  string
		want     []string
	}{
		"from the LockNamespace": {newRemedies("payments", "payments/billing", ""), message,
			[]string{"service account payments/worker", "Role payments/lockstead-billing", "LockNamespace payments/billing"}},
		"role given":       {newRemedies("payments", "payments/billing", "my-role"), message, []string{"Role payments/my-role"}},
		"nothing known":    {newRemedies("payments", "", ""), message, []string{"payments/worker", "get, list, watch, create, update and delete", "namespace payments"}},
		"a user":           {newRemedies("payments", "payments/billing", ""), `User "jane" cannot`, []string{"jane is not bound"}},
		"no user in there": {newRemedies("payments", "payments/billing", ""), "no", []string{"this process is not bound"}},
	} {
		got := tc.remedies.forbidden(tc.message)
		for _, want := range tc.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: remedy %q does not say %q", name, got, want)
			}
		}
	}
}

func TestOnlyTheAPIsOwnAnswerMeansThatThereIsNoLease(t *testing.T) {
	leases := schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	lease := apierrors.NewNotFound(leases, "lk-1")
	if !missesLease(lease) || !missesLease(fmt.Errorf("wrapped: %w", lease)) {
		t.Error("a missing Lease is not seen")
	}
	plain := apierrors.NewGenericServerResponse(http.StatusNotFound, "GET", leases, "lk-1", "404 page not found", 0, true)
	for _, err := range []error{apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "n"), plain, errors.New("x")} {
		if missesLease(err) {
			t.Errorf("%v is taken for a missing Lease", err)
		}
	}
}
