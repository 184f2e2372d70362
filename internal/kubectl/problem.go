// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/redislock"
)

// Problem is a failure as the user reads it: one sentence that says what is wrong and what to do.
type Problem struct {
	// Text is the sentence.
	Text string
	// Usage says that the command line is wrong.
	Usage bool
	// Told says that the user has read it already, as part of what was printed.
	Told bool
	// Err is the cause; it may be nil.
	Err error
}

func (p *Problem) Error() string { return p.Text }

// Unwrap gives the cause.
func (p *Problem) Unwrap() error { return p.Err }

func problemf(format string, args ...any) *Problem {
	return &Problem{Text: fmt.Sprintf(format, args...)}
}

func usagef(format string, args ...any) *Problem {
	return &Problem{Text: fmt.Sprintf(format, args...), Usage: true}
}

// explainAPI tells what a failed request to the API server means. Doing is what was tried, such as "read Secret payments/billing-lock".
func explainAPI(server, doing string, err error) error {
	if _, known := errors.AsType[*Problem](err); known || err == nil {
		return err
	}
	p := &Problem{Err: err}
	switch {
	case errors.Is(err, context.Canceled):
		p.Text = "interrupted"
	case meta.IsNoMatchError(err):
		p.Text = fmt.Sprintf("cannot %s: the cluster at %s has no Lockstead operator: install it with Helm (helm install lockstead charts/lockstead), "+
			"or choose another cluster with --context", doing, server)
	case apierrors.IsUnauthorized(err):
		p.Text = fmt.Sprintf("cannot %s: the API server at %s does not accept your credentials: log in again, or choose others with --context", doing, server)
	case apierrors.IsForbidden(err):
		p.Text = fmt.Sprintf("cannot %s: %s: ask an administrator of the cluster for that right", doing, forbidden(err))
	case apierrors.IsNotFound(err):
		p.Text = fmt.Sprintf("cannot %s: it does not exist: look with kubectl lockstead status -A", doing)
	case isCutOff(err):
		p.Text = fmt.Sprintf("cannot %s: the API server at %s does not answer (%s): check the network, or choose another cluster with --context",
			doing, server, lastCause(err))
	default:
		p.Text = fmt.Sprintf("cannot %s: %s", doing, oneLine(err.Error()))
	}
	return p
}

// forbidden is the part of the API server's answer that names who lacks which right.
func forbidden(err error) string {
	text := oneLine(err.Error())
	if _, after, found := strings.Cut(text, " is forbidden: "); found {
		return after
	}
	return text
}

// isCutOff reports whether no answer came: the connection was refused, broke, or was silent for too long.
func isCutOff(err error) bool {
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, context.DeadlineExceeded) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) ||
		strings.HasSuffix(err.Error(), "EOF") || strings.Contains(err.Error(), "connection reset by peer") || strings.Contains(err.Error(), "http2: ")
}

// lastCause is the innermost error, without the request around it.
func lastCause(err error) string {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return oneLine(err.Error())
		}
		err = next
	}
}

// explainStore tells what a fault of the lock store means. It names the way to the server, since the way is what differs from the application's.
func explainStore(doing string, way fmt.Stringer, err error) error {
	if problem, known := errors.AsType[*Problem](err); known {
		return problem
	}
	p := &Problem{Err: err}
	fault, isFault := errors.AsType[*driver.StoreError](err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		p.Text = "interrupted"
	case isFault && unreachable(fault.Reason):
		p.Text = fmt.Sprintf("cannot %s: %s cannot be reached (%s): %s", doing, way, oneLine(cause(fault)), remedyOf(way))
	case isFault && fault.Remedy != "":
		p.Text = fmt.Sprintf("cannot %s: %s refuses (%s): %s", doing, way, oneLine(cause(fault)), oneLine(fault.Remedy))
	default:
		p.Text = fmt.Sprintf("cannot %s over %s: %s: see kubectl lockstead verify", doing, way, oneLine(err.Error()))
	}
	return p
}

func unreachable(reason string) bool {
	switch reason {
	case redislock.ReasonConnect, redislock.ReasonConnection, redislock.ReasonTimeout, redislock.ReasonPool, redislock.ReasonContext:
		return true
	}
	return false
}

func cause(fault *driver.StoreError) string {
	if fault.Err == nil {
		return fault.Reason
	}
	return fault.Err.Error()
}

// oneLine keeps a text that came from elsewhere to one line without characters that move the cursor.
func oneLine(text string) string {
	return strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) {
			return ' '
		}
		return r
	}, text)), " ")
}
