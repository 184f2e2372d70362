// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package leaselock

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstead/lockstead/pkg/lock/driver"
)

// attempt runs one request under its time-out and turns a failure into the error that the driver contract asks for. The definite answers
// "not found", "conflict" and "already exists" come back as they are: what they mean depends on the caller.
func attempt[T any](ctx context.Context, d *Driver, op string, write bool, timeout time.Duration, request func(context.Context) (T, error)) (T, error) {
	timeout = min(timeout, d.options.AttemptTimeout)
	var sent atomic.Bool
	attemptCtx, cancel := context.WithCancel(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { sent.Store(true) },
	}))
	defer cancel()
	timer := d.clock.AfterFunc(timeout, cancel)
	defer timer.Stop()

	answer, err := request(attemptCtx)
	if err == nil || missesLease(err) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return answer, err
	}
	f := failure{op: op, write: write, sent: sent.Load() || !d.traced, err: err, caller: driver.ContextError(ctx)}
	if f.caller == nil && attemptCtx.Err() != nil {
		f.timeout = timeout
	}
	return answer, f.classify(d.remedies)
}

// failure is what is known about a request that brought no answer, or one that says nothing about the lock.
type failure struct {
	op string
	// write: the request would have changed something.
	write bool
	// sent: a connection was there, so part of the request may have left; also when nobody can tell.
	sent bool
	err  error
	// caller is the error and cause of the caller's context.
	caller error
	// timeout is the attempt's time-out if that is what ended the request.
	timeout time.Duration
}

// classify decides the outcome: only what cannot have been applied is ErrUnavailable.
func (f failure) classify(r remedies) error {
	store := &driver.StoreError{Outcome: driver.ErrUnavailable, Op: f.op, Err: f.err}
	var status apierrors.APIStatus
	if errors.As(f.err, &status) {
		f.classifyStatus(status, r, store)
		return store
	}
	if f.write && f.sent {
		store.Outcome = driver.ErrUnknown
	}
	switch {
	case f.caller != nil:
		store.Reason = "context"
		if !errors.Is(f.err, f.caller) {
			store.Err = fmt.Errorf("%w: %w", f.caller, f.err)
		}
	case f.timeout > 0:
		// The text of the cause only: the caller's context is alive, so the error must not match a context's.
		store.Reason = "timeout"
		store.Err = fmt.Errorf("no answer from the Kubernetes API within %s: %s", f.timeout, f.err.Error())
	default:
		store.Reason = "connection"
	}
	return store
}

func (f failure) classifyStatus(status apierrors.APIStatus, r remedies, store *driver.StoreError) {
	code := status.Status().Code
	switch {
	case apierrors.HasStatusCause(f.err, corev1.NamespaceTerminatingCause):
		store.Reason = "namespace-terminating"
	case code == http.StatusForbidden && strings.Contains(f.err.Error(), "exceeded quota"):
		store.Reason, store.Remedy = "quota", "raise the quota of Leases in the namespace"
	case code == http.StatusForbidden:
		store.Reason, store.Remedy = "permission", r.forbidden(status.Status().Message)
	case code == http.StatusUnauthorized:
		store.Reason, store.Remedy = "unauthorized", "the Kubernetes API does not accept the credentials of this process"
	case code == http.StatusNotFound && missingKind(f.err) == "namespaces":
		store.Reason, store.Remedy = "namespace-missing", r.missing()
	case code == http.StatusNotFound:
		store.Reason, store.Remedy = "not-found", "check that the address of the REST config is that of a Kubernetes API"
	case code == http.StatusTooManyRequests:
		store.Reason = "throttled"
	case code == http.StatusGone:
		store.Reason = "expired"
	case code >= http.StatusInternalServerError:
		store.Reason = "server"
		if f.write {
			store.Outcome = driver.ErrUnknown
		}
	default:
		store.Reason = "refused"
	}
	store.Lasting = store.Remedy != ""
}

// missesLease tells a missing Lease from a missing namespace, and from a 404 that no Kubernetes API wrote.
func missesLease(err error) bool {
	return apierrors.IsNotFound(err) && missingKind(err) == "leases"
}

// missingKind is the resource that a 404 is about, "" if the answer is not the API's own.
func missingKind(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil || apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		return ""
	}
	return status.Status().Details.Kind
}

// remedies say what to do about missing rights.
type remedies struct {
	namespace, lockNamespace, role string
}

func newRemedies(namespace, lockNamespace, role string) remedies {
	if role == "" && lockNamespace != "" {
		role = "lockstead-" + lockNamespace[strings.LastIndexByte(lockNamespace, '/')+1:]
	}
	return remedies{namespace: namespace, lockNamespace: lockNamespace, role: role}
}

var forbiddenUser = regexp.MustCompile(`User "([^"]+)"`)

func (r remedies) forbidden(message string) string {
	who := "this process"
	if match := forbiddenUser.FindStringSubmatch(message); match != nil {
		who = match[1]
		if account, ok := strings.CutPrefix(who, "system:serviceaccount:"); ok {
			who = "service account " + strings.Replace(account, ":", "/", 1)
		}
	}
	if r.role == "" {
		return fmt.Sprintf("%s needs the verbs get, list, watch, create, update and delete on leases in namespace %s", who, r.namespace)
	}
	return fmt.Sprintf("%s is not bound to Role %s/%s: name it in spec.consumers of LockNamespace %s, and the operator makes Role and RoleBinding",
		who, r.namespace, r.role, r.lockNamespace)
}

func (r remedies) missing() string {
	return fmt.Sprintf("namespace %s does not exist in the cluster that this process talks to", r.namespace)
}

// notHolder is the definite answer that an acquisition is over.
func notHolder(format string, args ...any) error {
	return fmt.Errorf("%w: %w", driver.ErrNotHolder, fmt.Errorf(format, args...))
}
