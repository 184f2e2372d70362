// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisadmin

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
)

// TenantUserPrefix begins the names of all users that the operator makes for tenants.
const TenantUserPrefix = "lk-"

// TenantUser is the name of the user of a LockNamespace: it comes from the UID, so that an object which is made anew inherits no
// user, password or open connection.
func TenantUser(uid string) string {
	hex := strings.ReplaceAll(strings.ToLower(uid), "-", "")
	if len(hex) > 12 {
		hex = hex[:12]
	}
	return TenantUserPrefix + hex
}

// NewPassword is a random password of 256 bits.
func NewPassword() string {
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // It never fails: it crashes the program instead.
	return base64.RawURLEncoding.EncodeToString(raw[:])
}

// UserMark is a rule that marks a user as made for the RedisInstance with this UID. It lets the user read a key that nobody writes. Two
// RedisInstances that name one server, and people's own users, are told apart by it.
func UserMark(root, instanceUID string) string { return "%R~" + root + ":!user:" + instanceUID }

// User is what the server tells of a user.
type User struct {
	Name       string
	on         bool
	noPassword bool
	passwords  map[string]bool
	hashes     []string
	keys       map[string]bool
	channels   map[string]bool
	commands   map[string]bool
	selectors  bool
}

// PasswordHashes are the user's passwords as redisproto.PasswordHash gives them, in the order in which they were added.
func (u User) PasswordHashes() []string { return u.hashes }

// HasMark reports whether the user has the mark of UserMark.
func (u User) HasMark(mark string) bool { return u.keys[mark] }

// Matches reports whether the user is exactly what want says. The server returns rules in another order, so they are compared as sets.
func (u User) Matches(want redisproto.User) bool {
	wanted := wantedUser(want)
	return u.on && !u.noPassword && !u.selectors && maps.Equal(u.passwords, wanted.passwords) && maps.Equal(u.keys, wanted.keys) &&
		maps.Equal(u.channels, wanted.channels) && maps.Equal(u.commands, wanted.commands)
}

func wantedUser(want redisproto.User) User {
	u := User{passwords: map[string]bool{}, keys: map[string]bool{}, channels: map[string]bool{}, commands: map[string]bool{"-@all": true}}
	for _, hash := range want.PasswordHashes {
		u.passwords[strings.TrimPrefix(hash, "#")] = true
	}
	for _, rule := range want.Rules {
		switch {
		case rule == "resetkeys", rule == "resetchannels":
		case strings.HasPrefix(rule, "~"), strings.HasPrefix(rule, "%"):
			u.keys[plainKeyRule(rule)] = true
		case strings.HasPrefix(rule, "&"):
			u.channels[rule] = true
		case rule == "+@all":
			delete(u.commands, "-@all")
			u.commands[rule] = true
		default:
			u.commands[rule] = true
		}
	}
	return u
}

// plainKeyRule writes a rule for reading and writing as the server does.
func plainKeyRule(rule string) string {
	for _, both := range []string{"%RW~", "%WR~"} {
		if pattern, ok := strings.CutPrefix(rule, both); ok {
			return "~" + pattern
		}
	}
	return rule
}

// GetUser returns a user as the server has it.
func (c *Client) GetUser(ctx context.Context, name string) (User, bool, error) {
	reply, err := c.redis.Do(ctx, "ACL", "GETUSER", name).Result()
	if errors.Is(err, redis.Nil) {
		return User{}, false, nil
	}
	if err != nil {
		return User{}, false, wrap("read user "+name, err)
	}
	user, err := parseUser(name, reply)
	return user, err == nil, err
}

func parseUser(name string, reply any) (User, error) {
	list, ok := reply.([]any)
	if !ok || len(list)%2 != 0 {
		return User{}, fmt.Errorf("read user %s: the reply is %T, not pairs of names and values", name, reply)
	}
	user := User{Name: name}
	for i := 0; i < len(list); i += 2 {
		field, _ := list[i].(string)
		words := wordSet(list[i+1])
		switch field {
		case "flags":
			user.on, user.noPassword = words["on"], words["nopass"]
		case "passwords":
			user.passwords = words
			for _, hash := range wordList(list[i+1]) {
				user.hashes = append(user.hashes, "#"+hash)
			}
		case "commands":
			user.commands = words
		case "keys":
			user.keys = words
		case "channels":
			user.channels = words
		case "selectors":
			selectors, _ := list[i+1].([]any)
			user.selectors = len(selectors) > 0
		}
	}
	return user, nil
}

// wordList reads a list of words, which older servers send as an array and newer ones as one text.
func wordList(value any) []string {
	switch value := value.(type) {
	case string:
		return strings.Fields(value)
	case []any:
		var words []string
		for _, element := range value {
			if word, ok := element.(string); ok {
				words = append(words, word)
			}
		}
		return words
	}
	return nil
}

func wordSet(value any) map[string]bool {
	set := map[string]bool{}
	for _, word := range wordList(value) {
		set[word] = true
	}
	return set
}

// EnsureUser makes a user exactly what want says and reads it back. Connections of the user stay.
func (c *Client) EnsureUser(ctx context.Context, want redisproto.User) (changed bool, err error) {
	args, err := want.SetUserArgs()
	if err != nil {
		return false, err
	}
	have, exists, err := c.GetUser(ctx, want.Name)
	if err != nil {
		return false, err
	}
	if exists && have.Matches(want) {
		return false, nil
	}
	command := []any{"ACL", "SETUSER"}
	for _, arg := range args {
		command = append(command, arg)
	}
	if err := c.redis.Do(ctx, command...).Err(); err != nil {
		return false, wrap("program user "+want.Name, err)
	}
	have, exists, err = c.GetUser(ctx, want.Name)
	if err != nil {
		return true, err
	}
	if !exists || !have.Matches(want) {
		return true, fmt.Errorf("program user %s: %w", want.Name, ErrUserChanged)
	}
	return true, nil
}

// TenantUsers are the names of the users that begin with TenantUserPrefix, sorted.
func (c *Client) TenantUsers(ctx context.Context) ([]string, error) {
	names, err := c.redis.Do(ctx, "ACL", "USERS").StringSlice()
	if err != nil {
		return nil, wrap("list the users", err)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, TenantUserPrefix) })
	slices.Sort(names)
	return names, nil
}

// DeleteUser removes a user, whose connections the server closes. It reports whether there was one. A user without the mark is left alone.
func (c *Client) DeleteUser(ctx context.Context, name, mark string) (deleted bool, err error) {
	user, exists, err := c.GetUser(ctx, name)
	if err != nil || !exists || !user.HasMark(mark) {
		return false, err
	}
	n, err := c.redis.Do(ctx, "ACL", "DELUSER", name).Int()
	return n > 0, wrap("delete user "+name, err)
}
