// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance

import (
	"slices"
	"strings"

	"github.com/lockstead/lockstead/internal/redisadmin"
	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/idempotency/redisstore/recordproto"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
)

// keyRoot begins the keys of all lock namespaces.
const keyRoot = "lk"

// The operator's own users of a managed server.
const (
	operatorUser = "lockstead-operator"
	probeUser    = "lockstead-probe"
)

// systemUsers are the users of a managed server that are not a tenant's.
func systemUsers(operatorPassword, probePassword string) []redisproto.User {
	return []redisproto.User{
		{Name: operatorUser, PasswordHashes: []string{redisproto.PasswordHash(operatorPassword)}, Rules: redisproto.OperatorRules()},
		{Name: probeUser, PasswordHashes: []string{redisproto.PasswordHash(probePassword)}, Rules: redisproto.ProbeRules()},
	}
}

// tenantUser is the user of a LockNamespace on the server of the RedisInstance with this UID. With records it may keep idempotency records.
func tenantUser(instanceUID, name, prefix string, access binding.Access, records bool, hashes []string) redisproto.User {
	rules := append(redisproto.TenantRules(prefix, access), redisadmin.UserMark(keyRoot, instanceUID))
	if records {
		rules = append(rules, recordproto.TenantRules(keyRoot, prefix)...)
	}
	return redisproto.User{Name: name, PasswordHashes: hashes, Rules: rules}
}

// parseBootFile reads the tenants' users from an ACL file. The file is the only place that has all their password hashes, so lines of others
// and lines that were broken by hand are skipped rather than an error: the controllers write them anew. So are second lines of one user, with which
// no server boots.
func parseBootFile(text string) []redisproto.User {
	var users []redisproto.User
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 3 || words[0] != "user" || words[2] != "on" || !strings.HasPrefix(words[1], redisadmin.TenantUserPrefix) {
			continue
		}
		user := redisproto.User{Name: words[1]}
		for _, word := range words[3:] {
			if strings.HasPrefix(word, "#") {
				user.PasswordHashes = append(user.PasswordHashes, word)
			} else {
				user.Rules = append(user.Rules, word)
			}
		}
		_, err := user.SetUserArgs()
		if err == nil && !slices.ContainsFunc(users, func(other redisproto.User) bool { return other.Name == user.Name }) {
			users = append(users, user)
		}
	}
	return users
}

// bootFile is the ACL file with the system's users and the tenants', which it sorts, so that the same users give the same text.
func bootFile(system, tenants []redisproto.User) (string, error) {
	tenants = slices.Clone(tenants)
	slices.SortFunc(tenants, func(a, b redisproto.User) int { return strings.Compare(a.Name, b.Name) })
	return redisproto.ACLFile(append(slices.Clone(system), tenants...))
}

// withUser replaces or adds a user.
func withUser(users []redisproto.User, user redisproto.User) []redisproto.User {
	return append(withoutUser(users, user.Name), user)
}

// withoutUser leaves a user out.
func withoutUser(users []redisproto.User, name string) []redisproto.User {
	return slices.DeleteFunc(slices.Clone(users), func(u redisproto.User) bool { return u.Name == name })
}
