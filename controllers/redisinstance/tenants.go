// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/internal/redisadmin"
	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/idempotency/redisstore/recordproto"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
)

// Tenants programs the users of LockNamespaces on the servers of RedisInstances.
type Tenants struct{ servers servers }

// NewTenants returns Tenants. The reader has to see Secrets, uncached.
func NewTenants(c client.Client, reader client.Reader, connector *redisadmin.Connector) *Tenants {
	return &Tenants{servers: servers{client: c, reader: reader, connector: connector}}
}

// Tenant is what a server has to know of a LockNamespace.
type Tenant struct {
	// Username is what redisadmin.TenantUser makes of the UID.
	Username string
	Prefix   string
	// Password is the one that is in the binding Secret, or will be.
	Password string
	// Previous are the hashes of other passwords that work for a while. Only the first few do, if there are many.
	Previous []string
	// KeepKnown lets the passwords that the user has work for a while too: pods still use them, and the Secret that told of them is gone.
	KeepKnown bool
	// MaxTTL is the longest TTL that its locks may have.
	MaxTTL time.Duration
	// Records are what its idempotency records may take. Nil is that it may keep none.
	Records *recordproto.Limits
	// HadRecords says that it may have some from before, which are removed when it may keep none.
	HadRecords bool
	// Programmed says that it was programmed before, so that its epoch record must be there.
	Programmed bool
}

// String names the tenant without its password.
func (t Tenant) String() string { return t.Username + " (" + t.Prefix + ")" }

// Format writes String for every verb, so that none of them shows the password.
func (t Tenant) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, t.String()) }

// Grant is what a server gives a tenant.
type Grant struct {
	// Server is how the tenant reaches it, and as whom.
	Server binding.Redis
	// Previous are the hashes of the passwords that work beside the one in Server.
	Previous []string
	// NotEnforced: all applications log in as one user that the owner of the server made, so nothing keeps them apart, and no password is
	// the operator's to change.
	NotEnforced bool
}

// maxPrevious is how many passwords work beside the one of the Secret. All users share one ACL file, so no tenant may fill it. The oldest come
// first: the newer ones of an operator that ended before it wrote the Secret, again and again, are nobody's.
const maxPrevious = 4

// hashes are the passwords of the user, when known are those that it has on the server.
func (t Tenant) hashes(known []string) (previous, all []string) {
	password := redisproto.PasswordHash(t.Password)
	previous = slices.Clone(t.Previous)
	if t.KeepKnown {
		previous = append(previous, known...)
	}
	previous = slices.DeleteFunc(previous, func(hash string) bool { return hash == password })
	previous = previous[:min(len(previous), maxPrevious)]
	return previous, append(slices.Clone(previous), password)
}

// ErrNotAvailable says that the server cannot be programmed now. The conditions of the RedisInstance say why.
var ErrNotAvailable = errors.New("the RedisInstance is not available")

// Program gives a tenant its user and epoch on the server of instance, reads the user back, and lets the server grant it locks. It returns how
// the tenant reaches the server. Repeated, it changes nothing. An error that is not ErrNotAvailable is the API server's.
func (t *Tenants) Program(ctx context.Context, instance *v1alpha1.RedisInstance, tenant Tenant) (Grant, error) {
	status := instance.Status
	if status.Epoch == 0 {
		return Grant{}, fmt.Errorf("%w yet", ErrNotAvailable)
	}
	if why := knownUnavailable(instance); why != "" {
		// Nobody waits for a server that is known not to answer; the LockNamespace is looked at again when the condition changes.
		return Grant{}, fmt.Errorf("%w: %s", ErrNotAvailable, why)
	}
	if status.LongestTTL == nil || status.LongestTTL.Duration < tenant.MaxTTL {
		return Grant{}, fmt.Errorf("%w: it does not know its longest TTL yet", ErrNotAvailable)
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	in, err := t.servers.login(ctx, instance)
	if err != nil {
		return Grant{}, ownReason(err)
	}
	server, err := t.servers.connect(ctx, in)
	if err != nil {
		return Grant{}, serverError(err)
	}
	defer server.Close()
	found, err := server.Probe(ctx)
	if err != nil {
		return Grant{}, serverError(err)
	}
	switch quarantined := status.QuarantineUntil != nil; {
	case quarantined && found.RunID != status.RunID:
		return Grant{}, fmt.Errorf("%w: it has restarted, and is not examined yet", ErrNotAvailable)
	case quarantined:
		// Its user comes back all the same, so that holders can renew and release what the server still has.
	default:
		if err := programEpoch(ctx, server, found, instance, tenant); err != nil {
			return Grant{}, serverError(err)
		}
	}
	at := endpoint(instance)
	reached := binding.Redis{
		Host: at.Host, Port: int(at.Port), Username: tenant.Username, Password: tenant.Password,
		TLS: at.TLS == v1alpha1.TLSVerify, CA: in.ca, Access: access(found),
	}
	if !Isolated(instance) {
		if status.QuarantineUntil != nil {
			return Grant{}, errQuarantined
		}
		shared, err := t.servers.readCredentials(ctx, instance.Namespace, instance.Spec.External.TenantCredentials.SecretName)
		reached.Username, reached.Password = shared.username, shared.password
		return Grant{Server: reached, NotEnforced: true}, ownReason(err)
	}
	if tenant.Records != nil && !found.Functions {
		return Grant{}, fmt.Errorf("%w: it has no functions any more, and is not examined yet", ErrNotAvailable)
	}
	if err := grantRecords(ctx, server, tenant); err != nil {
		return Grant{}, serverError(err)
	}
	previous, err := t.programUser(ctx, server, instance, in, tenant, access(found))
	if err != nil {
		return Grant{}, err
	}
	if tenant.Records == nil && tenant.HadRecords {
		// After the user has lost the right.
		if err := server.WithdrawRecords(ctx, keyRoot, tenant.Prefix, tenant.Username); err != nil {
			return Grant{}, serverError(err)
		}
	}
	if status.QuarantineUntil != nil {
		return Grant{}, errQuarantined
	}
	return Grant{Server: reached, Previous: previous}, nil
}

// programUser makes the user and returns the hashes of the passwords that it has beside the one of tenant. On a managed server it is first
// written into the file: a pod that restarts in between boots with the user.
func (t *Tenants) programUser(ctx context.Context, server *redisadmin.Client, instance *v1alpha1.RedisInstance, in login, tenant Tenant, access binding.Access) ([]string, error) {
	var known []string
	if tenant.KeepKnown {
		user, exists, err := server.GetUser(ctx, tenant.Username)
		if err != nil {
			return nil, serverError(err)
		}
		if exists {
			known = user.PasswordHashes()
		}
	}
	previous, all := tenant.hashes(known)
	if instance.Spec.Mode == v1alpha1.ModeManaged {
		err := t.edit(ctx, instance, in, func(users []redisproto.User) []redisproto.User {
			if i := slices.IndexFunc(users, func(u redisproto.User) bool { return u.Name == tenant.Username }); i >= 0 {
				// A server that has just started may not have the user yet.
				previous, all = tenant.hashes(users[i].PasswordHashes)
			}
			return withUser(users, tenantUser(string(instance.UID), tenant.Username, tenant.Prefix, access, tenant.Records != nil, all))
		})
		if err != nil {
			return nil, err
		}
	}
	if _, err := server.EnsureUser(ctx, tenantUser(string(instance.UID), tenant.Username, tenant.Prefix, access, tenant.Records != nil, all)); err != nil {
		return nil, serverError(err)
	}
	return previous, nil
}

// errQuarantined is an ErrNotAvailable.
var errQuarantined = fmt.Errorf("%w: it is in quarantine", ErrNotAvailable)

// knownUnavailable is why the server cannot be used, if the status says that of the present generation. One in quarantine can be used.
func knownUnavailable(instance *v1alpha1.RedisInstance) string {
	available := meta.FindStatusCondition(instance.Status.Conditions, v1alpha1.ConditionAvailable)
	if available == nil || available.ObservedGeneration != instance.Generation || available.Status != metav1.ConditionFalse ||
		available.Reason == v1alpha1.ReasonQuarantined {
		return ""
	}
	return available.Message
}

// Revoke deletes the user of a tenant, which closes its connections. Its keys stay until they run out. No such user is not an error. Where nobody can
// administer the users, nothing can be taken back. A server that is known not to answer is not waited for: ErrNotAvailable.
func (t *Tenants) Revoke(ctx context.Context, instance *v1alpha1.RedisInstance, username string) error {
	if !Isolated(instance) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	in, err := t.servers.login(ctx, instance)
	if err != nil {
		return ownReason(err)
	}
	if instance.Spec.Mode == v1alpha1.ModeManaged {
		err := t.edit(ctx, instance, in, func(users []redisproto.User) []redisproto.User { return withoutUser(users, username) })
		if err != nil {
			return err
		}
	}
	if why := knownUnavailable(instance); why != "" {
		return fmt.Errorf("%w: %s", ErrNotAvailable, why)
	}
	server, err := t.servers.connect(ctx, in)
	if err != nil {
		return serverError(err)
	}
	defer server.Close()
	_, err = server.DeleteUser(ctx, username, redisadmin.UserMark(keyRoot, string(instance.UID)))
	return serverError(err)
}

func (t *Tenants) edit(ctx context.Context, instance *v1alpha1.RedisInstance, in login, edit func([]redisproto.User) []redisproto.User) error {
	return ownReason(retry.RetryOnConflict(retry.DefaultBackoff, func() error { return t.servers.editBootFile(ctx, instance, in.system, edit) }))
}

// programEpoch writes and arms the epoch record of one tenant, if the server is still the one that the status of instance describes.
func programEpoch(ctx context.Context, server *redisadmin.Client, found redisadmin.Server, instance *v1alpha1.RedisInstance, tenant Tenant) error {
	selfArm := selfArms(found, instance.Status)
	whole := redisadmin.InstancePrefix(keyRoot)
	epochs, err := server.ReadEpochs(ctx, whole, tenant.Prefix)
	if err != nil {
		return err //nolint:wrapcheck // redisadmin says what was done.
	}
	record, exists := epochs[tenant.Prefix]
	switch {
	case epochs[whole].Number < uint64(instance.Status.Epoch), !keptAll(selfArm, epochs[whole]) && found.RunID != instance.Status.RunID:
		return errors.New("the server has restarted or lost its data, and is not examined yet")
	case record.Number > epochs[whole].Number:
		// As in a quarantine that the status, which may be an old one, does not tell of yet.
		return errors.New("the LockNamespace has a newer epoch than the server, which is not examined yet")
	case !exists && tenant.Programmed:
		return errors.New("the epoch record of the LockNamespace is gone: the server may have lost its locks")
	}
	want := redisproto.Epoch{Number: epochs[whole].Number, MaxTTL: tenant.MaxTTL, SelfArm: mayGrant(found, selfArm)}
	if _, err := server.WriteEpoch(ctx, tenant.Prefix, want); err != nil {
		return err //nolint:wrapcheck // As above.
	}
	return armUnlessSelf(ctx, server, map[string]redisproto.Epoch{tenant.Prefix: want})
}

// armUnlessSelf arms the records that do not arm themselves, and are not armed.
func armUnlessSelf(ctx context.Context, server *redisadmin.Client, records map[string]redisproto.Epoch) error {
	var prefixes []string
	for prefix, record := range records {
		if !record.SelfArm {
			prefixes = append(prefixes, prefix)
		}
	}
	if len(prefixes) == 0 {
		return nil
	}
	armed, err := server.ArmedEpochs(ctx, keyRoot, prefixes...)
	if err != nil {
		return err //nolint:wrapcheck // redisadmin says what was done.
	}
	for _, prefix := range prefixes {
		if number := records[prefix].Number; armed[prefix] != number {
			if err := server.Arm(ctx, prefix, number); err != nil {
				return err //nolint:wrapcheck // As above.
			}
		}
	}
	return nil
}

// ownReason marks an error that the RedisInstance has a condition for. Others are the API server's.
func ownReason(err error) error {
	if _, known := errors.AsType[*unavailableError](err); known {
		return serverError(err)
	}
	return err
}

// RefusedError says that the server answers, and refuses what the operator does for a tenant. It is the same at every attempt, until somebody
// does something about it.
type RefusedError struct {
	// Cause is what the server refused, and why.
	Cause error
}

// Error says what was refused.
func (e *RefusedError) Error() string { return "the server refuses: " + e.Cause.Error() }

// Unwrap returns the cause.
func (e *RefusedError) Unwrap() error { return e.Cause }

// serverError marks errors that are the server's.
func serverError(err error) error {
	switch {
	case err == nil:
		return nil
	case redisadmin.NeedsPerson(err):
		return &RefusedError{Cause: err}
	}
	return fmt.Errorf("%w: %w", ErrNotAvailable, err)
}
