// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockstead/lockstead/pkg/lock/driver"
)

// said is an answer of the server.
type said string

func (s said) Error() string { return string(s) }
func (said) RedisError()     {}

func TestExplain(t *testing.T) {
	refusedDial := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	readTimeout := &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}
	for name, tc := range map[string]struct {
		err         error
		written     bool
		wantOutcome error
		wantReason  string
		wantLasting bool
	}{
		"no connection":                    {refusedDial, false, driver.ErrUnavailable, ReasonConnect, false},
		"dial time-out":                    {context.DeadlineExceeded, false, driver.ErrUnavailable, ReasonTimeout, false},
		"pool exhausted":                   {redis.ErrPoolTimeout, false, driver.ErrUnavailable, ReasonPool, false},
		"client closed":                    {redis.ErrClosed, false, driver.ErrUnavailable, ReasonClosed, false},
		"client closed under the request":  {redis.ErrClosed, true, driver.ErrUnknown, ReasonClosed, false},
		"end of file in the handshake":     {io.EOF, false, driver.ErrUnavailable, ReasonConnect, false},
		"end of file after the write":      {io.EOF, true, driver.ErrUnknown, ReasonConnection, false},
		"reset after the write":            {syscall.ECONNRESET, true, driver.ErrUnknown, ReasonConnection, false},
		"read time-out":                    {readTimeout, true, driver.ErrUnknown, ReasonTimeout, false},
		"attempt time-out after the write": {context.DeadlineExceeded, true, driver.ErrUnknown, ReasonTimeout, false},
		"wrong password":                   {said("WRONGPASS invalid username-password pair or user is disabled."), false, driver.ErrUnavailable, ReasonAuthentication, true},
		"no password":                      {said("NOAUTH Authentication required."), true, driver.ErrUnavailable, ReasonAuthentication, true},
		"right to the command":             {said("NOPERM this user has no permissions to run the 'fcall' command"), true, driver.ErrUnavailable, ReasonPermission, true},
		"right inside, Redis 7.0":          {said("ERR The user executing the script can't access at least one of the keys mentioned in the command arguments script: lockstead_acquire"), true, driver.ErrUnavailable, ReasonPermission, true},
		"right inside, Redis 7.2":          {said("ERR ACL failure in script: User lk-a has no permissions to run the 'incr' command script: x"), true, driver.ErrUnavailable, ReasonPermission, true},
		"not armed":                        {said("LS_NOTARMED the lock namespace is not armed"), true, driver.ErrUnavailable, ReasonNotArmed, false},
		"no epoch":                         {said("LS_NOEPOCH the lock namespace has no epoch record"), true, driver.ErrUnavailable, ReasonNoEpoch, true},
		"TTL too long":                     {said("LS_TTLTOOLONG the longest TTL of this lock namespace is 1000 ms"), true, driver.ErrUnavailable, ReasonTTLTooLong, true},
		"TTL with a fraction":              {said("LS_BADTTL the TTL is a whole number of milliseconds from 1 up"), true, driver.ErrUnavailable, ReasonBadRequest, true},
		"an id that is none":               {said("LS_BADID the acquisition id is 32 lower-case hexadecimal digits"), true, driver.ErrUnavailable, ReasonBadRequest, true},
		"keys of two lock namespaces":      {said("LS_BADKEYS the keys are <prefix>lock:<key> and <prefix>!seq"), true, driver.ErrUnavailable, ReasonBadRequest, true},
		"no library":                       {said("ERR Function not found"), true, driver.ErrUnavailable, ReasonNoFunction, true},
		"no functions":                     {said("ERR unknown command 'fcall', with args beginning with: "), true, driver.ErrUnavailable, ReasonNoFunction, true},
		"script not loaded":                {said("NOSCRIPT No matching script. Please use EVAL."), true, driver.ErrUnavailable, ReasonNoScript, false},
		"memory full":                      {said("OOM command not allowed when used memory > 'maxmemory'."), true, driver.ErrUnavailable, ReasonOOM, true},
		"replica":                          {said("READONLY You can't write against a read only replica."), true, driver.ErrUnavailable, ReasonReadOnly, true},
		"loading":                          {said("LOADING Redis is loading the dataset in memory"), true, driver.ErrUnavailable, ReasonLoading, false},
		"busy":                             {said("BUSY Redis is busy running a script."), true, driver.ErrUnavailable, ReasonBusy, false},
		"disk full":                        {said("MISCONF Errors writing to the AOF file: No space left on device"), true, driver.ErrUnavailable, ReasonPersistence, true},
		"another node of a cluster":        {said("MOVED 866 10.0.0.1:6379"), true, driver.ErrUnavailable, ReasonCluster, true},
		"cluster down":                     {said("CLUSTERDOWN Hash slot not served"), true, driver.ErrUnavailable, ReasonCluster, false},
		"too many clients":                 {said("ERR max number of clients reached"), false, driver.ErrUnavailable, ReasonTooManyClients, true},
		"replicas are missing":             {said("NOREPLICAS Not enough good replicas to write."), true, driver.ErrUnavailable, ReasonReadOnly, false},
		"primary is missing":               {said("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."), true, driver.ErrUnavailable, ReasonReadOnly, false},
		"slot on its way":                  {said("ASK 866 10.0.0.1:6379"), true, driver.ErrUnavailable, ReasonCluster, true},
		"slot on two nodes":                {said("TRYAGAIN Multiple keys request during rehashing of slot"), true, driver.ErrUnavailable, ReasonCluster, false},
		"keys of two slots":                {said("CROSSSLOT Keys in request don't hash to the same slot"), true, driver.ErrUnavailable, ReasonCluster, true},
		"key of another node in a script":  {said("ERR Script attempted to access a non local key in a cluster node script: x"), true, driver.ErrUnavailable, ReasonCluster, false},
		"too many clients in a cluster":    {said("ERR max number of clients + cluster connections reached"), false, driver.ErrUnavailable, ReasonTooManyClients, true},
		"protected mode":                   {said("DENIED Redis is running in protected mode because protected mode is enabled"), false, driver.ErrUnavailable, ReasonPermission, true},
		"no users, Redis 5":                {said("ERR Client sent AUTH, but no password is set"), false, driver.ErrUnavailable, ReasonAuthentication, true},
		"no password is asked for":         {said("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"), false, driver.ErrUnavailable, ReasonAuthentication, true},
		"memory full, Redis 6":             {said("ERR Error running script (call to f_0a1b): @user_script:79: @user_script: 79: -OOM command not allowed when used memory > 'maxmemory'."), true, driver.ErrUnavailable, ReasonOOM, true},
		"replica, Redis 6":                 {said("ERR Error running script (call to f_0a1b): @user_script:79: @user_script: 79: -READONLY You can't write against a read only replica."), true, driver.ErrUnavailable, ReasonReadOnly, true},
		"right inside, Redis 6":            {said("ERR Error running script (call to f_0a1b): @user_script:79: @user_script: 79: The user executing the script can't run this command or subcommand"), true, driver.ErrUnavailable, ReasonPermission, true},
		"another fault, Redis 6":           {said("ERR Error running script (call to f_0a1b): @user_script:79: attempt to index a nil value"), true, driver.ErrUnknown, ReasonServerError, false},
		"a proxy's own error":              {said("ERR upstream failure"), true, driver.ErrUnknown, ReasonServerError, false},
		"a proxy's error before the write": {said("ERR upstream failure"), false, driver.ErrUnavailable, ReasonServerError, false},
		"an empty answer":                  {redis.Nil, true, driver.ErrUnknown, ReasonMalformedReply, false},
	} {
		for _, err := range []error{tc.err, fmt.Errorf("wrapped: %w", tc.err)} {
			got := explain("acquire", "order:1", tc.written, err)
			var fault *driver.StoreError
			if !errors.As(got, &fault) {
				t.Errorf("%s: got %v, want a *driver.StoreError", name, got)
				continue
			}
			if !errors.Is(fault.Outcome, tc.wantOutcome) || fault.Reason != tc.wantReason || fault.Lasting != tc.wantLasting || (fault.Lasting && fault.Remedy == "") {
				t.Errorf("%s: got outcome %v, reason %q, lasting %t, remedy %q", name, fault.Outcome, fault.Reason, fault.Lasting, fault.Remedy)
			}
			if said, ok := errors.AsType[said](tc.err); ok && fault.Reason != ReasonServerError && fault.Remedy == "" {
				t.Errorf("%s: no remedy for %q", name, said)
			}
			if errors.Is(got, context.DeadlineExceeded) || errors.Is(got, context.Canceled) {
				t.Errorf("%s: %v looks like the end of the caller's context", name, got)
			}
			if !strings.Contains(got.Error(), tc.err.Error()) {
				t.Errorf("%s: %q does not say what went wrong", name, got)
			}
		}
	}
}

// Every text that is known is in the table above.
func TestEveryRefusalIsTested(t *testing.T) {
	raw, err := os.ReadFile("outcome_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range refusals() {
		if !strings.Contains(string(raw), `said("`+r.start) {
			t.Errorf("no case for %q", r.start)
		}
	}
}

func TestExplainWhatIsNoFaultOfTheStore(t *testing.T) {
	for _, text := range []string{"WRONGTYPE Operation against a key holding the wrong kind of value", "LS_FOREIGN the key of the lock holds a value of somebody else"} {
		got := explain("acquire", "order:1", true, said(text))
		if !errors.Is(got, driver.ErrForeign) || errors.Is(got, driver.ErrUnknown) || !strings.Contains(got.Error(), "order:1") {
			t.Errorf("%q is explained as %v", text, got)
		}
	}
	got := explain("acquire", "order:1", false, fmt.Errorf("%w: restart", driver.ErrBackendChanged))
	if !errors.Is(got, driver.ErrBackendChanged) || errors.Is(got, driver.ErrUnavailable) {
		t.Errorf("a changed backend is explained as %v", got)
	}
}

func TestAnEndedContextIsRecognised(t *testing.T) {
	why := errors.New("shutting down")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	got := ended(ctx, "acquire", driver.ErrUnknown)
	for _, want := range []error{context.Canceled, why, driver.ErrUnknown} {
		if !errors.Is(got, want) {
			t.Errorf("%v does not match %v", got, want)
		}
	}
}

func TestAnAbandonedRequestIsNotWrittenAnyMore(t *testing.T) {
	early := &mark{id: "a"}
	if early.abandon() {
		t.Error("a request that was not written counts as written")
	}
	if _, err := early.MarshalBinary(); err == nil {
		t.Error("an abandoned request is written")
	}
	late := &mark{id: "a"}
	for range 2 {
		if got, err := late.MarshalBinary(); err != nil || string(got) != "a" {
			t.Fatalf("wrote %q, %v", got, err)
		}
	}
	if !late.abandon() || !late.wasWritten() {
		t.Error("a written request counts as not written")
	}
	if _, err := late.MarshalBinary(); err == nil {
		t.Error("an abandoned request is written once more")
	}
}
