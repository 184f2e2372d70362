// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisadmin_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstead/lockstead/internal/redisadmin"
	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
)

const uid = "5f0c7a3e-9d1b-4c55-8d6e-1a2b3c4d5e6f"

var (
	prefix = redisproto.Prefix("lk", "payments/billing")
	mark   = redisadmin.UserMark("lk", uid)
)

func tenant(password string) redisproto.User {
	return redisproto.User{
		Name: redisadmin.TenantUser(uid), PasswordHashes: []string{redisproto.PasswordHash(password)},
		Rules: append(redisproto.TenantRules(prefix, binding.AccessFunctions), mark),
	}
}

func TestProbeOfAServer(t *testing.T) {
	for name, tc := range map[string]struct {
		config      []string
		wantSelfArm bool
		want        func(redisadmin.Server) bool
	}{
		"durable": {nil, true, func(s redisadmin.Server) bool { return s.Durable() && !s.DefaultUser.Open }},
		"not durable": {[]string{"appendonly no"}, false, func(s redisadmin.Server) bool {
			return !s.Durable() && s.Settings.Known && !s.Settings.AppendOnly()
		}},
		"every second": {[]string{"appendfsync everysec"}, false, func(s redisadmin.Server) bool {
			return !s.Durable() && s.Settings.Values[redisadmin.SettingAppendFsync] == "everysec"
		}},
		"evicting": {[]string{"appendonly no", "maxmemory-policy volatile-lru"}, false, func(s redisadmin.Server) bool {
			return s.Settings.Eviction() == "volatile-lru"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			server := startServer(t, tc.config...)
			got, err := server.connect().Probe(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got.Version == "" || got.RunID == "" || !got.Primary || !got.Functions || got.Cluster || got.Replicas != 0 {
				t.Errorf("probe found %+v", got)
			}
			if got.SelfArm() != tc.wantSelfArm || !tc.want(got) {
				t.Errorf("probe found %+v, SelfArm %t", got, got.SelfArm())
			}
		})
	}
}

// A default user with limited rights makes the server drop the writes of functions when it replays its file.
func TestAServerWithARestrictedDefaultUserDoesNotArmItself(t *testing.T) {
	server := startServer(t)
	raw := server.raw()
	for _, tc := range []struct {
		rules          string
		open, restrict bool
	}{
		{"on nopass ~* &* +@all", true, false},
		{"on nopass ~* &* +@all -debug", true, true},
		{"on nopass resetkeys ~a +@all", true, true},
		{"on resetpass >x allkeys +@all", false, false},
	} {
		command := []any{"ACL", "SETUSER", "default"}
		for rule := range strings.FieldsSeq(tc.rules) {
			command = append(command, rule)
		}
		if err := raw.Do(t.Context(), command...).Err(); err != nil {
			t.Fatal(err)
		}
		client, err := redisadmin.NewConnector(nil).Connect(t.Context(), server.target())
		if err != nil {
			t.Fatal(err)
		}
		got, err := client.Probe(t.Context())
		client.Close()
		if err != nil {
			t.Fatal(err)
		}
		if got.DefaultUser.Open != tc.open || got.DefaultUser.Restricted != tc.restrict || got.SelfArm() == tc.restrict {
			t.Errorf("%s: found %+v, SelfArm %t", tc.rules, got.DefaultUser, got.SelfArm())
		}
	}
}

func TestSettingsAreChangedAsAWhole(t *testing.T) {
	server := startServer(t)
	client := server.connect()
	if err := client.ChangeSettings(t.Context(), map[string]string{"maxmemory": "100mb", "appendfsync": "sometimes"}); err == nil {
		t.Error("a value that does not exist was accepted")
	}
	if err := client.ChangeSettings(t.Context(), map[string]string{"maxmemory-policy": "allkeys-lru", "save": "60 1"}); err != nil {
		t.Fatal(err)
	}
	got, err := client.Probe(t.Context())
	if values := got.Settings.Values; err != nil || values["maxmemory"] != "0" || values["maxmemory-policy"] != "allkeys-lru" || values["save"] != "60 1" {
		t.Errorf("settings are %v, %v", values, err)
	}
}

func TestTheDefaultUserIsClosedForThoseWhoAreInToo(t *testing.T) {
	server := startServer(t)
	client := server.connect()
	raw := server.raw()
	if err := raw.Do(t.Context(), "ACL", "SETUSER", "default", "on", "nopass", "-debug").Err(); err != nil {
		t.Fatal(err)
	}
	stranger := server.Client(t, "", "")
	if err := stranger.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if err := client.CloseDefaultUser(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := stranger.Ping(t.Context()).Err(); err == nil {
			t.Error("a stranger is still in")
		}
	}
	got, err := client.Probe(t.Context())
	if user := got.DefaultUser; err != nil || user.On || user.Open || user.Restricted || !user.Known {
		t.Errorf("the default user is %+v, %v", user, err)
	}
}

func TestAServerBelongsToTheFirstWhoClaimsIt(t *testing.T) {
	client := startServer(t).connect()
	for _, cluster := range []string{"one", "one", "two"} {
		if owner, err := client.Claim(t.Context(), "lk", cluster); err != nil || owner != "one" {
			t.Errorf("claimed by %s: owner is %q, %v", cluster, owner, err)
		}
	}
}

func TestUsersAreComparedWithoutTheirPasswords(t *testing.T) {
	client := startServer(t).connect()
	want := tenant("secret")
	if _, err := client.EnsureUser(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	users, err := client.GetUsers(t.Context(), want.Name, "lk-nobody")
	if err != nil || len(users) != 1 {
		t.Fatalf("users are %v, %v", users, err)
	}
	unknown := want
	unknown.PasswordHashes = nil
	if !users[want.Name].MatchesRules(unknown) || users[want.Name].Matches(unknown) {
		t.Error("the user does not match by its rules alone")
	}
	unknown.Rules = append([]string{"+get|x", "~a"}, unknown.Rules...)
	if users[want.Name].MatchesRules(unknown) {
		t.Error("a user with fewer rules matches")
	}
	if uid, ok := users[want.Name].InstanceOf("lk"); !ok || redisadmin.UserMark("lk", uid) != mark {
		t.Errorf("the user was made for %q", uid)
	}
}

func TestLibraryIsLoadedOnlyWhenItDiffers(t *testing.T) {
	server := startServer(t)
	client := server.connect()
	for i, want := range []bool{true, false, false} {
		loaded, err := client.EnsureLibrary(t.Context())
		if err != nil || loaded != want {
			t.Fatalf("pass %d: loaded %t, %v", i, loaded, err)
		}
	}
	raw := server.raw()
	older := "#!lua name=" + redisproto.LibraryName + "\nredis.register_function('lockstead_acquire', function() return 1 end)"
	if err := raw.FunctionLoadReplace(t.Context(), older).Err(); err != nil {
		t.Fatal(err)
	}
	if loaded, err := client.EnsureLibrary(t.Context()); err != nil || !loaded {
		t.Errorf("another version was not replaced: %t, %v", loaded, err)
	}
	server.restart()
	if loaded, err := server.connect().EnsureLibrary(t.Context()); err != nil || loaded {
		t.Errorf("after a restart: loaded %t, %v", loaded, err)
	}
}

func TestUserIsProgrammedOnceAndRepaired(t *testing.T) {
	server := startServer(t)
	client := server.connect()
	raw := server.raw()
	user := tenant("secret")
	ensure := func(want bool) {
		t.Helper()
		if changed, err := client.EnsureUser(t.Context(), user); err != nil || changed != want {
			t.Fatalf("EnsureUser: changed %t, %v; want %t", changed, err, want)
		}
	}
	ensure(true)
	ensure(false)
	for _, drift := range []string{"off", "+flushall", "~*", "&*", "nopass", ">another", "-get", "resetkeys", "(+set ~other:*)", "resetpass"} {
		words := []any{"ACL", "SETUSER", user.Name, drift}
		if err := raw.Do(t.Context(), words...).Err(); err != nil {
			t.Fatal(err)
		}
		if changed, err := client.EnsureUser(t.Context(), user); err != nil || !changed {
			t.Errorf("drift %q was not repaired: changed %t, %v", drift, changed, err)
		}
	}
	ensure(false)
	user.PasswordHashes = append(user.PasswordHashes, redisproto.PasswordHash("second"))
	ensure(true)
	for _, password := range []string{"secret", "second"} {
		login := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: user.Name, Password: password})
		if err := login.Ping(t.Context()).Err(); err != nil {
			t.Errorf("login with password %q: %v", password, err)
		}
		_ = login.Close()
	}
}

func TestOperatorAndProbeUsersReadBack(t *testing.T) {
	client := startServer(t).connect()
	for name, rules := range map[string][]string{"operator": redisproto.OperatorRules(), "probe": redisproto.ProbeRules()} {
		user := redisproto.User{Name: name, PasswordHashes: []string{redisproto.PasswordHash("x")}, Rules: rules}
		for i, want := range []bool{true, false} {
			if changed, err := client.EnsureUser(t.Context(), user); err != nil || changed != want {
				t.Errorf("%s, pass %d: changed %t, %v", name, i, changed, err)
			}
		}
	}
}

func TestABadRuleChangesNothing(t *testing.T) {
	client := startServer(t).connect()
	user := tenant("secret")
	if _, err := client.EnsureUser(t.Context(), user); err != nil {
		t.Fatal(err)
	}
	bad := user
	bad.Rules = []string{"+nosuchcommand"}
	if _, err := client.EnsureUser(t.Context(), bad); err == nil {
		t.Fatal("a rule that the server does not know was accepted")
	}
	if changed, err := client.EnsureUser(t.Context(), user); err != nil || changed {
		t.Errorf("the failed attempt changed the user: %t, %v", changed, err)
	}
}

func TestOnlyMarkedUsersAreDeleted(t *testing.T) {
	server := startServer(t)
	client := server.connect()
	ours := tenant("secret")
	foreign := redisproto.User{Name: "lk-somebody", PasswordHashes: []string{redisproto.PasswordHash("x")}, Rules: []string{"~*", "+@all"}}
	other := ours
	other.Name, other.Rules = "lk-other", []string{redisadmin.UserMark("lk", "another-uid"), "+ping"}
	for _, user := range []redisproto.User{ours, foreign, other} {
		if _, err := client.EnsureUser(t.Context(), user); err != nil {
			t.Fatal(err)
		}
	}
	names, err := client.TenantUsers(t.Context())
	if err != nil || strings.Join(names, " ") != ours.Name+" lk-other lk-somebody" {
		t.Fatalf("users are %v, %v", names, err)
	}
	login := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: ours.Name, Password: "secret", PoolSize: 1, MaxRetries: -1})
	defer func() { _ = login.Close() }()
	if err := login.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{ours.Name: true, foreign.Name: false, other.Name: false, "lk-nobody": false} {
		if deleted, err := client.DeleteUser(t.Context(), name, mark); err != nil || deleted != want {
			t.Errorf("delete %s: %t, %v", name, deleted, err)
		}
	}
	if err := login.Ping(t.Context()).Err(); err == nil {
		t.Error("a connection of the deleted user still works")
	}
}

func TestEpochOnlyGrows(t *testing.T) {
	client := startServer(t).connect()
	if epochs, err := client.ReadEpochs(t.Context(), prefix); len(epochs) != 0 || err != nil {
		t.Fatalf("an absent record was read: %v, %v", epochs, err)
	}
	for _, tc := range []struct {
		epoch       redisproto.Epoch
		wantChanged bool
		wantErr     error
	}{
		{redisproto.Epoch{Number: 7, MaxTTL: time.Hour}, true, nil},
		{redisproto.Epoch{Number: 7, MaxTTL: time.Hour}, false, nil},
		{redisproto.Epoch{Number: 7, MaxTTL: time.Minute, SelfArm: true}, true, nil},
		{redisproto.Epoch{Number: 6, MaxTTL: time.Minute}, false, redisadmin.ErrNewerEpoch},
		{redisproto.Epoch{Number: 8, MaxTTL: time.Minute}, true, nil},
	} {
		changed, err := client.WriteEpoch(t.Context(), prefix, tc.epoch)
		if changed != tc.wantChanged || !errors.Is(err, tc.wantErr) {
			t.Errorf("write %v: changed %t, %v", tc.epoch, changed, err)
		}
	}
	got, err := client.ReadEpochs(t.Context(), redisproto.Prefix("lk", "a/b"), prefix)
	if want := (redisproto.Epoch{Number: 8, MaxTTL: time.Minute}); err != nil || len(got) != 1 || got[prefix] != want {
		t.Errorf("read %v, %v", got, err)
	}
}

func TestAForeignValueInPlaceOfTheEpochIsLeftAlone(t *testing.T) {
	server := startServer(t)
	raw := server.raw()
	key := redisproto.EpochKey(prefix)
	if err := raw.Set(t.Context(), key, "something", 0).Err(); err != nil {
		t.Fatal(err)
	}
	client := server.connect()
	if _, err := client.WriteEpoch(t.Context(), prefix, redisproto.Epoch{Number: 1}); err == nil || errors.Is(err, redisadmin.ErrUnreachable) {
		t.Errorf("error is %v", err)
	}
	if got := raw.Get(t.Context(), key).Val(); got != "something" {
		t.Errorf("the value is %q now", got)
	}
}

func TestArming(t *testing.T) {
	server := startServer(t)
	client := server.connect()
	if _, err := client.EnsureLibrary(t.Context()); err != nil {
		t.Fatal(err)
	}
	armed := func(client *redisadmin.Client) string {
		t.Helper()
		epochs, err := client.ArmedEpochs(t.Context(), "lk", prefix, redisproto.Prefix("lk", "a/b"))
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(epochs)
	}
	if err := client.Arm(t.Context(), prefix, 3); err == nil {
		t.Error("a lock namespace without an epoch record was armed")
	}
	if _, err := client.WriteEpoch(t.Context(), prefix, redisproto.Epoch{Number: 3, MaxTTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if err := client.Arm(t.Context(), prefix, 2); err == nil {
		t.Error("a lock namespace was armed for an epoch that is not the record's")
	}
	if got := armed(client); got != "map[]" {
		t.Errorf("armed before arming: %s", got)
	}
	if err := client.Arm(t.Context(), prefix, 3); err != nil {
		t.Fatal(err)
	}
	if got := armed(client); got != "map["+prefix+":3]" {
		t.Errorf("armed after arming: %s", got)
	}
	server.restart()
	if got := armed(server.connect()); got != "map[]" {
		t.Errorf("armed after a restart: %s", got)
	}
}

func TestErrorsSayWhatIsWrongWithoutThePassword(t *testing.T) {
	server := startServer(t)
	limited := redisproto.User{Name: "limited", PasswordHashes: []string{redisproto.PasswordHash("hidden-word")}, Rules: []string{"+ping", "+client|setname"}}
	if _, err := server.connect().EnsureUser(t.Context(), limited); err != nil {
		t.Fatal(err)
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	connector := redisadmin.NewConnector(&redisadmin.Options{Timeout: 2 * time.Second})
	for name, tc := range map[string]struct {
		target redisadmin.Target
		want   error
	}{
		"nobody listens": {redisadmin.Target{Address: closed.Addr().String(), Username: "limited", Password: "hidden-word"}, redisadmin.ErrUnreachable},
		"wrong password": {redisadmin.Target{Address: server.Addr(), Username: "limited", Password: "hidden-word-2"}, redisadmin.ErrCredentials},
		"unknown user":   {redisadmin.Target{Address: server.Addr(), Username: "nobody", Password: "hidden-word"}, redisadmin.ErrCredentials},
	} {
		_, err := connector.Connect(t.Context(), tc.target)
		if !errors.Is(err, tc.want) || strings.Contains(err.Error(), "hidden-word") {
			t.Errorf("%s: error is %v", name, err)
		}
		if text := fmt.Sprintf("%v %+v %#v %s", tc.target, tc.target, tc.target, tc.target); strings.Contains(text, "hidden-word") {
			t.Errorf("%s: the target prints its password: %s", name, text)
		}
	}
	client, err := connector.Connect(t.Context(), redisadmin.Target{Address: server.Addr(), Username: "limited", Password: "hidden-word"})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Probe(t.Context()); !errors.Is(err, redisadmin.ErrDenied) {
		t.Errorf("an administrator without rights: error is %v", err)
	}
}

func TestTenantUserComesFromTheUID(t *testing.T) {
	if got, want := redisadmin.TenantUser(uid), "lk-5f0c7a3e9d1b"; got != want {
		t.Errorf("user is %s, want %s", got, want)
	}
	if a, b := redisadmin.NewPassword(), redisadmin.NewPassword(); a == b || len(a) < 40 {
		t.Error("passwords are not random")
	}
}
