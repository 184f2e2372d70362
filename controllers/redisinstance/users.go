// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/internal/redisadmin"
	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
)

// Reading a user blocks the server for a third of a millisecond, so only some are read at a look: as many as it takes to see each once within
// inspectWithin, and at least inspectAtLeast.
const (
	inspectWithin  = 4 * time.Minute
	inspectAtLeast = 20
)

// rounds remember how far users were read. They are safe for concurrent use.
type rounds struct {
	mu   sync.Mutex
	last map[types.UID]round
}

// round is how far the users of one server were read.
type round struct {
	// tenant and stranger are the names that were read last.
	tenant, stranger string
	// wrong are the users that were not what they should be; they are read again at every look.
	wrong sets.Set[string]
}

func newRounds() *rounds { return &rounds{last: map[types.UID]round{}} }

func (r *rounds) get(server types.UID) round {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last[server]
}

func (r *rounds) set(server types.UID, to round) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last[server] = to
}

func (r *rounds) forget(server types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.last, server)
}

// perLook is how many of n users to read at a look, if there is one every period.
func perLook(n int, period time.Duration) int {
	return max(inspectAtLeast, int((time.Duration(n)*period+inspectWithin-1)/inspectWithin))
}

// nextOf returns up to n of the sorted names, beginning after one, and from the start again when they are at an end.
func nextOf(names []string, after string, n int) []string {
	start, found := slices.BinarySearch(names, after)
	if found {
		start++
	}
	n = min(n, len(names))
	return slices.Concat(names[start:], names[:start])[:n]
}

// userCount is how many users of LockNamespaces a server has, of how many.
type userCount struct {
	programmed, wanted int
	// refused are those that are not there because the server refuses them. Others are on their way.
	refused int
}

// inspection is what is compared with the users of a server.
type inspection struct {
	instance *v1alpha1.RedisInstance
	// names are the users on the server whose names an operator could have made, sorted. They were read before tenants were listed.
	names   []string
	tenants tenants
	// instances are the UIDs of all RedisInstances of the cluster.
	instances sets.Set[string]
	// boot are the users in the ACL file of a managed server.
	boot map[string]redisproto.User
	// access is how the users run the lock protocol.
	access binding.Access
	// period is that of the looks.
	period time.Duration
}

// inspect puts the users of a server right as far as the operator can: it deletes those whose LockNamespace or RedisInstance is gone, and makes
// those of the ACL file that the server lost or that somebody changed. Those of an external server whose password it does not know it counts
// as not programmed.
func (c *Controller) inspect(ctx context.Context, admin *redisadmin.Client, in inspection) (userCount, error) {
	round := c.rounds.get(in.instance.UID)
	if err := c.sweep(ctx, admin, in, &round); err != nil {
		return userCount{}, err
	}
	present := sets.New(in.names...)
	lost := sets.KeySet(in.boot).Intersection(in.tenants.users).Difference(present)
	restored, err := c.restoreUsers(ctx, admin, in.instance, sets.List(lost))
	if err != nil {
		return userCount{}, err
	}
	present = present.Union(restored)
	wanted := in.wantedUsers()
	count := userCount{wanted: len(wanted)}
	var here []string
	for name := range wanted {
		if present.Has(name) {
			here = append(here, name)
		}
	}
	slices.Sort(here)
	batch := nextOf(here, round.tenant, perLook(len(here), in.period))
	if len(batch) > 0 {
		round.tenant = batch[len(batch)-1]
	}
	again := round.wrong.Intersection(sets.New(here...)).Difference(sets.New(batch...))
	changed, wrong, err := compareUsers(ctx, admin, append(batch, sets.List(again)...), wanted, in.boot)
	if err != nil {
		return userCount{}, err
	}
	if _, err := c.restoreUsers(ctx, admin, in.instance, changed); err != nil {
		return userCount{}, err
	}
	round.wrong = wrong
	c.rounds.set(in.instance.UID, round)
	count.programmed = len(here) - len(wrong)
	for name := range in.refused() {
		if _, ok := wanted[name]; ok && (!present.Has(name) || wrong.Has(name)) {
			count.refused++
		}
	}
	return count, nil
}

// refused are the users of LockNamespaces whose programming failed.
func (in inspection) refused() sets.Set[string] {
	users := sets.New[string]()
	for i := range in.tenants.bound {
		namespace := &in.tenants.bound[i]
		programmed := meta.FindStatusCondition(namespace.Status.Conditions, v1alpha1.ConditionProgrammed)
		if programmed != nil && programmed.Reason == v1alpha1.ReasonProgramFailed {
			users.Insert(redisadmin.TenantUser(string(namespace.UID)))
		}
	}
	return users
}

// wantedUsers are those of the LockNamespaces that may use the server, without their passwords.
func (in inspection) wantedUsers() map[string]redisproto.User {
	users := map[string]redisproto.User{}
	for i := range in.tenants.bound {
		namespace := &in.tenants.bound[i]
		if namespace.AccessRevoked() {
			continue
		}
		prefix, known := in.tenants.prefixOf(namespace)
		if !known {
			continue // The owner of its keys is gone, and its user is being revoked.
		}
		name := redisadmin.TenantUser(string(namespace.UID))
		users[name] = tenantUser(string(in.instance.UID), name, prefix, in.access, KeepsRecords(namespace), nil)
	}
	return users
}

// compareUsers returns those of the users with these names that are not as wanted: changed ones, which the ACL file has, and wrong ones.
func compareUsers(ctx context.Context, admin *redisadmin.Client, names []string, wanted, boot map[string]redisproto.User) (changed []string, wrong sets.Set[string], err error) {
	found, err := admin.GetUsers(ctx, names...)
	if err != nil {
		return nil, nil, err //nolint:wrapcheck // redisadmin says what was done.
	}
	wrong = sets.New[string]()
	for _, name := range names {
		user, exists := found[name]
		known, inFile := boot[name]
		switch {
		case inFile && exists && user.Matches(known):
		case inFile:
			changed = append(changed, name)
		case !exists, !user.MatchesRules(wanted[name]):
			wrong.Insert(name)
		}
	}
	return changed, wrong, nil
}

// restoreUsers makes users of a managed server what its ACL file says now, and returns those that the file has.
//
// Tenants changes users at the same time, the file first and then the server. So the file is read again after the server was written: if it says the
// same, whoever changes it later writes the server later, too.
func (c *Controller) restoreUsers(ctx context.Context, admin *redisadmin.Client, instance *v1alpha1.RedisInstance, names []string) (sets.Set[string], error) {
	restored := sets.New[string]()
	written := map[string]redisproto.User{}
	for again := len(names) > 0; again; {
		again = false
		users, err := c.readBootUsers(ctx, instance)
		if err != nil {
			return nil, err
		}
		file := byName(users)
		for _, name := range names {
			want, inFile := file[name]
			last, wrote := written[name]
			switch {
			case inFile && wrote && slices.Equal(last.PasswordHashes, want.PasswordHashes) && slices.Equal(last.Rules, want.Rules):
				continue
			case inFile:
				_, err = admin.EnsureUser(ctx, want)
				written[name] = want
				restored.Insert(name)
			case wrote:
				_, err = admin.DeleteUser(ctx, name, redisadmin.UserMark(keyRoot, string(instance.UID)))
				delete(written, name)
				restored.Delete(name)
			default:
				continue
			}
			if err != nil {
				return nil, err //nolint:wrapcheck // redisadmin says what was done.
			}
			again = true
		}
	}
	return restored, nil
}

func byName(users []redisproto.User) map[string]redisproto.User {
	named := make(map[string]redisproto.User, len(users))
	for _, user := range users {
		named[user.Name] = user
	}
	return named
}

// sweep deletes users whose LockNamespace or RedisInstance is gone. Users of people, of other RedisInstances, and of a LockNamespace that is
// being bound stay.
func (c *Controller) sweep(ctx context.Context, admin *redisadmin.Client, in inspection, round *round) error {
	strangers := slices.DeleteFunc(slices.Clone(in.names), in.tenants.users.Has)
	batch := nextOf(strangers, round.stranger, perLook(len(strangers), in.period))
	if len(batch) == 0 {
		return nil
	}
	round.stranger = batch[len(batch)-1]
	found, err := admin.GetUsers(ctx, batch...)
	if err != nil {
		return err //nolint:wrapcheck // redisadmin says what was done.
	}
	for _, name := range batch {
		user, exists := found[name]
		if !exists {
			continue
		}
		owner, ours := user.InstanceOf(keyRoot)
		if !ours || (owner != string(in.instance.UID) && in.instances.Has(owner)) {
			continue
		}
		if _, err := admin.DeleteUser(ctx, name, redisadmin.UserMark(keyRoot, owner)); err != nil {
			return err //nolint:wrapcheck // As above.
		}
	}
	return nil
}

// String says how many users are there.
func (u userCount) String() string { return fmt.Sprintf("%d of %d", u.programmed, u.wanted) }
