// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisproto

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"github.com/lockstead/lockstead/pkg/binding"
)

// DefaultUserRules close the default user: nobody can log in as it. It keeps all rights, since the server replays its
// append-only file as this user, and with a restricted one it drops every write of a function that made more than one
// (redis/redis#14541, valkey-io/valkey#3983), so that a lock and its counter would be gone after a restart.
func DefaultUserRules() []string { return []string{"off", "~*", "&*", "+@all"} }

// OperatorRules are the rules of the operator's own user.
func OperatorRules() []string { return []string{"~*", "&*", "+@all"} }

// ProbeRules are the rules of the user of the pod's probes: it can tell that the server answers, and nothing else.
func ProbeRules() []string { return []string{"resetchannels", "-@all", "+ping"} }

// TenantRules are the rules of a user limited to one lock namespace: exactly what a lock client needs. The epoch record can be
// read, not written. Left out on purpose: eval, script and function (tenants run only what the operator loaded),
// keys, scan and client|tracking (they tell the names of other tenants' keys), and everything that configures the server.
//
// They need a server with key permissions (Redis 7, Valkey).
func TenantRules(prefix string, access binding.Access) []string {
	rules := []string{
		"resetkeys", "%RW~" + LockKey(prefix, "*"), "%RW~" + SequenceKey(prefix), "%RW~" + HeldKey(prefix), "%R~" + EpochKey(prefix),
		"resetchannels", "&" + Channel(prefix, "*"),
		"-@all",
		"+get", "+set", "+del", "+pexpire", "+pttl", "+incr", "+zadd", "+zrem", "+zrangebyscore", // inside the functions
		"+publish", "+subscribe", "+unsubscribe",
		"+ping", "+hello", "+client|setname", "+time",
	}
	if access == binding.AccessScripts {
		return append(rules, "+evalsha")
	}
	return append(rules, "+fcall", "+fcall_ro")
}

// ClusterRules are what a user of TenantRules needs beside them on a Redis Cluster: its client asks which node serves a key, and says that it was sent
// there while a slot moves.
func ClusterRules() []string { return []string{"+cluster|slots", "+asking"} }

// PasswordHash is the form in which ACL rules carry a password: "#" and its SHA-256.
func PasswordHash(password string) string {
	sum := sha256.Sum256([]byte(password))
	return "#" + hex.EncodeToString(sum[:])
}

// IsPasswordHash reports whether PasswordHash could have made hash.
func IsPasswordHash(hash string) bool { return passwordHash.MatchString(hash) }

// User is a line of an ACL file.
type User struct {
	// Name is 1 to 64 letters, digits, "-" or "_", and not "default".
	Name string
	// PasswordHashes are what PasswordHash gives; none means that nobody can log in with a password.
	PasswordHashes []string
	// Rules are those of ACL SETUSER beside the passwords, for example TenantRules.
	Rules []string
}

var (
	userName     = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	passwordHash = regexp.MustCompile(`^#[0-9a-f]{64}$`)
	aclRule      = regexp.MustCompile(`^[!-~]+$`)
)

// SetUserArgs are the arguments of ACL SETUSER that make u exactly what it says: the command is atomic, keeps the user's
// connections, and changes nothing if a rule is wrong.
func (u User) SetUserArgs() ([]string, error) {
	if err := u.validate(); err != nil {
		return nil, err
	}
	return append(append([]string{u.Name, "reset", "on"}, u.PasswordHashes...), u.Rules...), nil
}

// ACLFile is the content of the file that a server boots its users from. The default user is closed by DefaultUserRules.
func ACLFile(users []User) (string, error) {
	var file strings.Builder
	fmt.Fprintf(&file, "user default %s\n", strings.Join(DefaultUserRules(), " "))
	for _, u := range users {
		if err := u.validate(); err != nil {
			return "", err
		}
		words := append(append([]string{"user", u.Name, "on"}, u.PasswordHashes...), u.Rules...)
		file.WriteString(strings.Join(words, " ") + "\n")
	}
	return file.String(), nil
}

// validate keeps a name, hash or rule from becoming a second word or line of the file.
func (u User) validate() error {
	if !userName.MatchString(u.Name) || u.Name == "default" {
		return fmt.Errorf("user name %q is not 1 to 64 letters, digits, '-' or '_'", u.Name)
	}
	for _, hash := range u.PasswordHashes {
		if !IsPasswordHash(hash) {
			return fmt.Errorf("user %s: a password is not given as # and its SHA-256", u.Name)
		}
	}
	for _, rule := range u.Rules {
		if !aclRule.MatchString(rule) {
			return fmt.Errorf("user %s: rule %q contains a space or a character that is not printable", u.Name, rule)
		}
	}
	return nil
}
