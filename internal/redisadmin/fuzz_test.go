// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisadmin

import (
	"strings"
	"testing"

	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
)

// FuzzParseInfo lets a server tell anything of itself. Whatever it is, it arms itself only as a primary that was never a replica and has none.
func FuzzParseInfo(f *testing.F) {
	f.Add("# Server\r\nredis_version:7.0.15\r\nrun_id:0a\r\nrole:master\r\nconnected_slaves:0\r\nmaster_replid2:0000\r\naof_enabled:1\r\n")
	f.Add("valkey_version:8.1.1\r\nserver_name:valkey\r\nrole:slave\r\nused_memory:18446744073709551615\r\nmaxmemory:-1\r\n")
	f.Add("role:master\r\nconnected_slaves:-3\r\nmaster_replid2:\r\ncluster_enabled:1")
	f.Add("redis_version")
	f.Fuzz(func(t *testing.T, text string) {
		server := parseInfo(text)
		if server.Engine != "Redis" && server.Engine != "Valkey" {
			t.Errorf("the engine is %q", server.Engine)
		}
		server.Settings = Settings{Known: true, Values: map[string]string{SettingAppendOnly: "yes", SettingAppendFsync: "always"}}
		server.DefaultUser = DefaultUser{Known: true}
		if server.SelfArm() && (!strings.Contains(text, "role:master") || server.Promoted || server.Cluster || server.Replicas != 0) {
			t.Errorf("a server that says %q arms itself", text)
		}
	})
}

// replyPart makes one of the things that a reply can consist of.
func replyPart(kind byte, text string) any {
	switch kind % 6 {
	case 0:
		return text
	case 1:
		return strings.Fields(text)
	case 2:
		var list []any
		for word := range strings.FieldsSeq(text) {
			list = append(list, word)
		}
		return list
	case 3:
		return int64(len(text))
	case 4:
		return []any{[]any{text}}
	}
	return nil
}

// FuzzParseUser lets a server answer anything to ACL GETUSER. What is read is taken for a tenant's user only if all of it is there.
func FuzzParseUser(f *testing.F) {
	const prefix = "lk:{a/b}:"
	hash := redisproto.PasswordHash("x")
	want := redisproto.User{Name: "lk-0a", PasswordHashes: []string{hash}, Rules: []string{"%R~" + redisproto.EpochKey(prefix), "+get"}}
	f.Add(byte(2), "on", byte(2), hash[1:], byte(0), "-@all +get", byte(0), "%R~lk:{a/b}:!epoch", byte(3), "")
	f.Add(byte(2), "on nopass", byte(2), "", byte(0), "+@all", byte(0), "~*", byte(4), "x")
	f.Add(byte(5), "", byte(5), "", byte(5), "", byte(5), "", byte(5), "")
	f.Fuzz(func(t *testing.T, kf byte, flags string, kp byte, passwords string, kc byte, commands string, kk byte, keys string, ks byte, selectors string) {
		user, err := parseUser("lk-0a", []any{
			"flags", replyPart(kf, flags), "passwords", replyPart(kp, passwords), "commands", replyPart(kc, commands), "keys", replyPart(kk, keys),
			"channels", []any{}, "selectors", replyPart(ks, selectors),
		})
		if err != nil || !user.Matches(want) {
			return
		}
		for word := range strings.FieldsSeq(flags) {
			if word == "nopass" {
				t.Errorf("a user without a password passes for one with it: %q", flags)
			}
		}
		if len(user.PasswordHashes()) == 0 || user.PasswordHashes()[0] != hash || !strings.Contains(commands, "+get") || strings.Contains(commands, "+@all") {
			t.Errorf("a user with passwords %q and commands %q passes for %+v", passwords, commands, want)
		}
	})
}

// FuzzParseUserShape lets a server answer with something else than pairs.
func FuzzParseUserShape(f *testing.F) {
	f.Add(byte(0), "x")
	f.Add(byte(2), "flags on passwords")
	f.Add(byte(2), "flags on keys ~*")
	f.Fuzz(func(t *testing.T, kind byte, text string) {
		user, err := parseUser("lk-0a", replyPart(kind, text))
		if err == nil && user.Name != "lk-0a" {
			t.Errorf("%q is user %q", text, user.Name)
		}
	})
}
