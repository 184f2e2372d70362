// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redislock_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

// granted are the commands that a tenant may run, spelled out once more on purpose: a rule that grants a category, or one command more, fails the tests.
func granted(access binding.Access) []string {
	commands := []string{
		"get", "set", "del", "pexpire", "pttl", "incr", "zadd", "zrem", "zrangebyscore", "publish", "subscribe", "unsubscribe", "ping", "hello", "client|setname", "time",
		// These the server grants everybody, since nobody is logged in before them.
		"auth", "quit", "reset",
	}
	if access == binding.AccessScripts {
		return append(commands, "evalsha")
	}
	return append(commands, "fcall", "fcall_ro")
}

// onlyRead are the granted commands that the epoch record may be read with.
func onlyRead() []string { return []string{"get", "pttl", "zrangebyscore", "fcall_ro"} }

// target is a key or a channel that a tenant tries to reach.
type target struct {
	what string
	name string
	// allowed says which of the granted commands may reach it.
	allowed func(command string) bool
}

func everyCommand(string) bool { return true }
func noCommand(string) bool    { return false }

func keyTargets() []target {
	return []target{
		{"own lock", redisproto.LockKey(theirs, "a"), everyCommand},
		{"own counter", redisproto.SequenceKey(theirs), everyCommand},
		{"own list of held keys", redisproto.HeldKey(theirs), everyCommand},
		{"own epoch record", redisproto.EpochKey(theirs), func(command string) bool { return slices.Contains(onlyRead(), command) }},
		{"own key of no use", theirs + "other", noCommand},
		{"operator's key", redisproto.ArmKey(theirs), noCommand},
		{"foreign lock", redisproto.LockKey(prefix, "a"), noCommand},
		{"foreign counter", redisproto.SequenceKey(prefix), noCommand},
		{"foreign list of held keys", redisproto.HeldKey(prefix), noCommand},
		{"foreign epoch record", redisproto.EpochKey(prefix), noCommand},
		{"key of nobody", "elsewhere", noCommand},
	}
}

func channelTargets() []target {
	return []target{
		{"own channel", redisproto.Channel(theirs, "a"), everyCommand},
		{"foreign channel", redisproto.Channel(prefix, "a"), noCommand},
		{"all channels", "*", noCommand},
	}
}

// isolation tries everything as a tenant, and counts.
type isolation struct {
	access binding.Access
	server *redistest.Server
	admin  *redis.Client
	tenant *redis.Client
	checks int
}

// inside is server-side code of the operator that runs any command with the rights of its caller.
const (
	insideFunction = "#!lua name=anything\nredis.register_function('anything', function(keys, args) return redis.pcall(unpack(args)) end)"
	insideScript   = "return redis.pcall(unpack(ARGV))"
)

func startIsolation(t *testing.T, access binding.Access) *isolation {
	t.Helper()
	// Without these settings the server refuses DEBUG and MODULE before it looks at rights. Nothing has to survive.
	server, _, tenant := startTenants(t, access, "enable-debug-command local", "enable-module-command local", "appendonly no")
	i := &isolation{access: access, server: server, admin: server.Admin(t), tenant: tenant}
	if err := i.admin.FunctionLoad(t.Context(), insideFunction).Err(); err != nil {
		t.Fatal(err)
	}
	if err := i.admin.ScriptLoad(t.Context(), insideScript).Err(); err != nil {
		t.Fatal(err)
	}
	i.restore(t)
	return i
}

// restore gives every key a value, so that a change shows. The value is a number, so that no command fails for want of one.
func (i *isolation) restore(t *testing.T) {
	t.Helper()
	for _, key := range keyTargets() {
		value := "7"
		if strings.HasSuffix(key.what, "epoch record") {
			value = epoch.String()
		}
		if err := i.admin.Set(t.Context(), key.name, value, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// state is all that a tenant could have changed. With own, that is without what it may change.
func (i *isolation) state(t *testing.T, own bool) string {
	t.Helper()
	if !own {
		digest, err := i.admin.Do(t.Context(), "debug", "digest").Text()
		if err != nil {
			t.Fatal(err)
		}
		return digest
	}
	var state strings.Builder
	for _, key := range keyTargets()[3:] {
		value, err := i.admin.Get(t.Context(), key.name).Result()
		ttl := i.admin.PTTL(t.Context(), key.name).Val()
		fmt.Fprintln(&state, key.what, value, err, ttl)
	}
	return state.String()
}

// settings are what a tenant could have changed of the server itself.
func (i *isolation) settings(t *testing.T) string {
	t.Helper()
	config := i.admin.ConfigGet(t.Context(), "*").Val()
	var settings strings.Builder
	for _, name := range slices.Sorted(maps.Keys(config)) {
		fmt.Fprintln(&settings, name, config[name])
	}
	for _, question := range [][]any{
		{"acl", "list"}, {"function", "list", "withcode"}, {"script", "exists", redisproto.InspectScript().SHA1}, {"module", "list"},
		{"role"}, {"pubsub", "numpat"},
	} {
		// The offset of the replication counts everything that was written, the restoring included.
		reply, err := i.admin.Do(t.Context(), question...).Result()
		if question[0] == "role" {
			reply = reply.([]any)[0]
		}
		fmt.Fprintln(&settings, question, fmt.Sprintf("%v", reply), err)
	}
	return settings.String()
}

// refused reports whether the server refused for want of a right, or since no server-side code may run the command.
func refused(err error) bool {
	return denied(err) || err != nil && (strings.Contains(err.Error(), "not allowed from script") || strings.Contains(err.Error(), "not allowed on script"))
}

// outside runs a command as the tenant.
func (i *isolation) outside(t *testing.T, words []any) error {
	return i.tenant.Do(t.Context(), words...).Err()
}

// inside runs a command as the tenant within server-side code, which declares no key.
func (i *isolation) inside(t *testing.T, words []any) error {
	if i.access == binding.AccessScripts {
		return i.tenant.EvalSha(t.Context(), redis.NewScript(insideScript).Hash(), nil, words...).Err()
	}
	return i.tenant.FCall(t.Context(), "anything", nil, words...).Err()
}

// try runs a command on a target outside and inside, and says which outcome is wrong.
func (i *isolation) try(t *testing.T, c serverCommand, to target, allowed bool) {
	t.Helper()
	words := c.words(to.name)
	for where, run := range map[string]func(*testing.T, []any) error{"outside": i.outside, "inside": i.inside} {
		i.checks++
		err := run(t, words)
		may := allowed && (where == "outside" || !c.flagged("noscript"))
		switch {
		case err != nil && strings.Contains(strings.ToLower(err.Error()), "wrong number of arg"):
			t.Errorf("%s on the %s %s: the test calls it wrongly with %q: %v", c.name, to.what, where, words, err)
		case may && refused(err):
			t.Errorf("%s on the %s %s: %v, want it allowed", c.name, to.what, where, err)
		case !may && !refused(err):
			t.Errorf("%s on the %s %s: %v, want it refused for want of a right", c.name, to.what, where, err)
		}
	}
}

// A tenant can do nothing but what a lock client needs, on nothing but its own lock namespace: every command of the server, on every kind of key and channel,
// outside and inside of functions and scripts.
func TestIsolation(t *testing.T) {
	bothAccesses(t, func(t *testing.T, access binding.Access) {
		i := startIsolation(t, access)
		commands := serverCommands(t, i.admin)
		i.dryRun(t, commands)
		i.forReal(t, commands)
		i.code(t)
		t.Logf("isolation: %d checks of %d commands on %s, access by %s", i.checks, len(commands), i.version(t), access)
		// Redis 7.0 has the fewest commands.
		const commandsAtLeast, checksAtLeast = 350, 6000
		if len(commands) < commandsAtLeast || i.checks < checksAtLeast {
			t.Errorf("there were %d checks of %d commands, want at least %d of %d", i.checks, len(commands), checksAtLeast, commandsAtLeast)
		}
	})
}

// version names the server.
func (i *isolation) version(t *testing.T) string {
	t.Helper()
	info := i.admin.InfoMap(t.Context(), "server")
	if version := info.Item("Server", "valkey_version"); version != "" {
		return "valkey " + version
	}
	return "redis " + info.Item("Server", "redis_version")
}

// dryRun asks the server of every command whether the tenant may run it.
func (i *isolation) dryRun(t *testing.T, commands []serverCommand) {
	t.Helper()
	cluster := redisproto.User{Name: "on-a-cluster", Rules: append(redisproto.TenantRules(theirs, i.access), redisproto.ClusterRules()...)}
	args, err := cluster.SetUserArgs()
	if err != nil {
		t.Fatal(err)
	}
	words := []any{"acl", "setuser"}
	for _, arg := range args {
		words = append(words, arg)
	}
	if err := i.admin.Do(t.Context(), words...).Err(); err != nil {
		t.Fatal(err)
	}
	for user, more := range map[string][]string{"theirs": nil, cluster.Name: {"cluster|slots", "asking"}} {
		want := append(granted(i.access), more...)
		slices.Sort(want)
		var got []string
		for _, c := range commands {
			i.checks++
			own := redisproto.LockKey(theirs, "a")
			if c.group == "pubsub" {
				own = redisproto.Channel(theirs, "a")
			}
			answer, err := i.admin.Do(t.Context(), append([]any{"acl", "dryrun", user}, c.words(own)...)...).Text()
			if err != nil {
				t.Errorf("dry run of %s as %q: %v", c.name, c.words(own), err)
			}
			switch {
			case answer == "OK":
				got = append(got, c.name)
			case !strings.Contains(answer, "has no permissions to run the"):
				t.Errorf("dry run of %s: %s", c.name, answer)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("user %s may run %q, want %q", user, got, want)
		}
	}
	if err := i.admin.Do(t.Context(), "acl", "deluser", cluster.Name).Err(); err != nil {
		t.Fatal(err)
	}
}

// forReal runs every command on every target, and looks whether something has changed.
func (i *isolation) forReal(t *testing.T, commands []serverCommand) {
	t.Helper()
	listening := i.admin.Subscribe(t.Context(), redisproto.Channel(prefix, "a"))
	defer func() { _ = listening.Close() }()
	if _, err := listening.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	settings := i.settings(t)
	mayRun := granted(i.access)
	for _, c := range commands {
		may := slices.Contains(mayRun, c.name)
		targets := []target{{what: "server", name: "x", allowed: everyCommand}}
		switch {
		case c.group == "pubsub" && c.hasTarget():
			targets = channelTargets()
		case c.hasTarget():
			targets = keyTargets()
		}
		i.restore(t)
		before := i.state(t, may)
		for _, to := range targets {
			// These change the connection and not the server; the dry run has looked at them.
			if may && (c.flagged("no_auth") || c.name == "subscribe" && to.what == "own channel" || c.name == "unsubscribe") {
				continue
			}
			i.try(t, c, to, may && to.allowed(c.name))
		}
		if after := i.state(t, may); after != before {
			t.Errorf("%s changed something:\n%s\nwas before:\n%s", c.name, after, before)
		}
	}
	if after := i.settings(t); after != settings {
		t.Errorf("the settings have changed:\n%s\nwere before:\n%s", after, settings)
	}
	// Nothing was published on the foreign channel.
	if err := i.admin.Publish(t.Context(), redisproto.Channel(prefix, "a"), "the end").Err(); err != nil {
		t.Fatal(err)
	}
	if message, err := listening.ReceiveMessage(t.Context()); err != nil || message.Payload != "the end" {
		t.Errorf("the foreign channel brought %v, %v", message, err)
	}
}

// serverCode is a piece of the operator's code, and how a tenant calls it.
type serverCode struct {
	name    string
	command string
	// operators says that only the operator may run it.
	operators bool
	call      func(keys []string, args []any) error
}

func (i *isolation) serverCode(t *testing.T) []serverCode {
	t.Helper()
	var all []serverCode
	if i.access == binding.AccessScripts {
		scripts := append(redisproto.HolderScripts(), redisproto.GrantScripts()...)
		for number, script := range append(scripts, redisproto.AcquireScript()) {
			all = append(all, serverCode{fmt.Sprintf("script %d", number), "evalsha", false, func(keys []string, args []any) error {
				return i.tenant.EvalSha(t.Context(), script.SHA1, keys, args...).Err()
			}})
		}
		return all
	}
	libraries, err := i.admin.FunctionList(t.Context(), redis.FunctionListQuery{LibraryNamePattern: redisproto.LibraryName}).Result()
	if err != nil || len(libraries) != 1 {
		t.Fatalf("the function library: %v, %v", libraries, err)
	}
	for _, function := range libraries[0].Functions {
		operators := function.Name == redisproto.FunctionArm || function.Name == redisproto.FunctionArmedEpochs
		all = append(all,
			serverCode{function.Name, "fcall", operators, func(keys []string, args []any) error {
				return i.tenant.FCall(t.Context(), function.Name, keys, args...).Err()
			}},
			serverCode{function.Name, "fcall_ro", operators, func(keys []string, args []any) error {
				return i.tenant.FCallRO(t.Context(), function.Name, keys, args...).Err()
			}})
	}
	return all
}

// code calls the operator's server-side code, each piece with every pair of keys, and with both prefixes as arguments.
func (i *isolation) code(t *testing.T) {
	t.Helper()
	i.restore(t)
	before := i.state(t, true)
	arguments := [][]any{
		{newID(), longTTL.Milliseconds(), "me", newID()}, {prefix, epoch.Number, "", ""}, {theirs, epoch.Number, "", ""},
		{newID(), redisproto.Channel(prefix, "a"), "", ""},
	}
	for _, code := range i.serverCode(t) {
		for _, args := range arguments {
			for _, first := range keyTargets() {
				for _, second := range keyTargets() {
					i.checks++
					err := code.call([]string{first.name, second.name}, args)
					foreign := !first.allowed(code.command) || !second.allowed(code.command)
					if foreign && !denied(err) || code.operators && err == nil {
						t.Errorf("%s by %s with the %s, the %s and %q: %v, want it refused for want of a right", code.name, code.command, first.what, second.what, args, err)
					}
				}
			}
			i.checks++
			if err := code.call(nil, args); err == nil {
				t.Errorf("%s by %s without keys and with %q was allowed", code.name, code.command, args)
			}
		}
	}
	if after := i.state(t, true); after != before {
		t.Errorf("the operator's code changed something:\n%s\nwas before:\n%s", after, before)
	}
	if i.access == binding.AccessScripts {
		return
	}
	armed, err := i.admin.FCallRO(t.Context(), redisproto.FunctionArmedEpochs, []string{redisproto.ArmKey(prefix)}, prefix).StringSlice()
	if err != nil || !slices.Equal(armed, []string{""}) {
		t.Errorf("the foreign lock namespace is armed for %q, %v", armed, err)
	}
}
