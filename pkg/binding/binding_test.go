// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package binding_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/lockstead/lockstead/pkg/binding"
)

const secret = "pa:ss/w@rd?#"

func redisBinding() *binding.Binding {
	return &binding.Binding{
		Type: binding.TypeRedis, LockNamespace: "payments/billing", Prefix: "lk:{payments/billing}:", Instance: "uid-1",
		TTLDefault: 30 * time.Second, TTLMax: time.Hour,
		Redis: &binding.Redis{Host: "locks.lock-system.svc", Port: 6379, Username: "lk-1f3a9c0b77de", Password: secret, Access: binding.AccessFunctions},
	}
}

func leaseBinding() *binding.Binding {
	return &binding.Binding{
		Type: binding.TypeLease, LockNamespace: "payments/billing", Prefix: "lk:{payments/billing}:", Instance: "lease",
		TTLDefault: 30 * time.Second, TTLMax: time.Hour,
		Lease: &binding.Lease{Epoch: 1, FallbackCondition: "NoRedisConfigured", FallbackFix: "create a RedisInstance"},
	}
}

func TestEncodedBindingParsesToItself(t *testing.T) {
	withTLS := redisBinding()
	withTLS.Redis.TLS, withTLS.Redis.CA, withTLS.Redis.Host = true, []byte("-----BEGIN CERTIFICATE-----\n"), "fd00::1"
	withRecords := redisBinding()
	withRecords.Redis.Records = &binding.Records{Share: 16 << 20, MaxResponse: 64 << 10}
	for name, want := range map[string]*binding.Binding{"redis": redisBinding(), "redis with TLS": withTLS, "redis with records": withRecords, "lease": leaseBinding()} {
		entries, err := want.Encode()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := binding.Parse(entries)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: parsed %#v", name, got)
		}
	}
}

func TestURI(t *testing.T) {
	b := redisBinding()
	b.Redis.Host, b.Redis.TLS = "fd00::1", true
	if got, want := b.Redis.URI(), "rediss://lk-1f3a9c0b77de:pa%3Ass%2Fw%40rd%3F%23@[fd00::1]:6379"; got != want {
		t.Errorf("URI is %s, want %s", got, want)
	}
}

func TestPasswordIsNeverPrinted(t *testing.T) {
	b := redisBinding()
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
		for _, value := range []any{b, *b, b.Redis, *b.Redis} {
			if got := fmt.Sprintf(format, value); strings.Contains(got, secret) || strings.Contains(got, fmt.Sprintf("%x", secret)) {
				t.Errorf("%s of a %T shows the password: %s", format, value, got)
			}
		}
	}
	encoded, err := json.Marshal(b)
	if err != nil || strings.Contains(string(encoded), "pa:ss") {
		t.Errorf("as JSON the binding shows the password: %s %v", encoded, err)
	}
	broken := redisBinding()
	broken.Redis.Port = 0
	if _, err := broken.Encode(); err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("error is %v, want one without the password", err)
	}
}

func TestWrongBindingsAreRefusedByName(t *testing.T) {
	type entries = map[string][]byte
	for name, tc := range map[string]struct {
		base   *binding.Binding
		change func(entries)
		want   []string
	}{
		"empty":                      {redisBinding(), func(e entries) { clear(e) }, []string{`"provider": is missing`}},
		"type missing":               {redisBinding(), func(e entries) { delete(e, "type") }, []string{`"type": is missing`}},
		"type unknown":               {redisBinding(), func(e entries) { e["type"] = []byte("etcd") }, []string{`"type": "etcd" is neither`}},
		"another service":            {redisBinding(), func(e entries) { e["provider"] = []byte("bitnami") }, []string{"binding of another service"}},
		"two things missing":         {redisBinding(), func(e entries) { delete(e, "host"); delete(e, "prefix") }, []string{`"host": is missing`, `"prefix": is missing`}},
		"port is no number":          {redisBinding(), func(e entries) { e["port"] = []byte("redis") }, []string{`"port": "redis" is not a number`}},
		"port is out of range":       {redisBinding(), func(e entries) { e["port"] = []byte("65536") }, []string{`"port"`}},
		"password empty":             {redisBinding(), func(e entries) { e["password"] = nil }, []string{`"password": is empty`}},
		"tls is no truth value":      {redisBinding(), func(e entries) { e["tls"] = []byte("maybe") }, []string{`"tls": "maybe"`}},
		"access unknown":             {redisBinding(), func(e entries) { e["access"] = []byte("eval") }, []string{`"access": "eval"`}},
		"duration without a unit":    {redisBinding(), func(e entries) { e["ttl-default"] = []byte("30") }, []string{`"ttl-default": "30" is not a duration`}},
		"maximum under the default":  {redisBinding(), func(e entries) { e["ttl-max"] = []byte("1s") }, []string{`"ttl-max"`}},
		"glob in the prefix":         {redisBinding(), func(e entries) { e["prefix"] = []byte("lk:{payments/*}:") }, []string{`"prefix"`}},
		"prefix without terminator":  {redisBinding(), func(e entries) { e["prefix"] = []byte("lk:{payments/billing}") }, []string{`"prefix"`}},
		"lock namespace without one": {redisBinding(), func(e entries) { e["lock-namespace"] = []byte("billing") }, []string{`"lock-namespace"`}},
		"instance empty":             {leaseBinding(), func(e entries) { e["instance"] = nil }, []string{`"instance": is empty`}},
		"epoch negative":             {leaseBinding(), func(e entries) { e["epoch"] = []byte("-1") }, []string{`"epoch": "-1"`}},
	} {
		encoded, err := tc.base.Encode()
		if err != nil {
			t.Fatal(err)
		}
		tc.change(encoded)
		_, err = binding.Parse(encoded)
		if err == nil {
			t.Errorf("%s: was accepted", name)
			continue
		}
		for _, want := range tc.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %q does not contain %q", name, err, want)
			}
		}
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: error shows the password: %v", name, err)
		}
	}
}

// mount lays out a Secret volume as the kubelet's atomic writer does.
func mount(t *testing.T, dir, version string, entries map[string][]byte) {
	t.Helper()
	data := filepath.Join(dir, ".."+version)
	if err := os.MkdirAll(data, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, value := range entries {
		if err := os.WriteFile(filepath.Join(data, name), value, 0o600); err != nil {
			t.Fatal(err)
		}
		link := filepath.Join(dir, name)
		_ = os.Remove(link)
		if err := os.Symlink(filepath.Join("..data", name), link); err != nil {
			t.Fatal(err)
		}
	}
	next := filepath.Join(dir, "..data_tmp")
	if err := os.Symlink(".."+version, next); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
}

func TestLoadMountedSecret(t *testing.T) {
	dir := t.TempDir()
	entries, err := redisBinding().Encode()
	if err != nil {
		t.Fatal(err)
	}
	mount(t, dir, "one", entries)
	got, err := binding.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, redisBinding()) {
		t.Errorf("loaded %v", got)
	}
	rotated := redisBinding()
	rotated.Redis.Password = "next"
	if entries, err = rotated.Encode(); err != nil {
		t.Fatal(err)
	}
	mount(t, dir, "two", entries)
	if got, err = binding.Load(dir); err != nil {
		t.Fatal(err)
	}
	if got.Redis.Password != "next" || !got.SameBackend(redisBinding()) {
		t.Errorf("after the rotation loaded %v", got)
	}
}

func TestLoadPlainFolder(t *testing.T) {
	dir := t.TempDir()
	entries, err := leaseBinding().Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range entries {
		if err := os.WriteFile(filepath.Join(dir, name), append(value, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := binding.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, leaseBinding()) {
		t.Errorf("loaded %v", got)
	}
}

func TestLoadErrorShowsTheVolumeStanza(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	huge := filepath.Join(dir, "huge")
	if err := os.MkdirAll(huge, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(huge, "type"), make([]byte, 1<<20+1), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(dir, "empty")
	if err := os.MkdirAll(empty, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"missing": filepath.Join(dir, "missing"), "a file": file, "too large an entry": huge, "empty": empty} {
		_, err := binding.Load(path)
		var load *binding.LoadError
		if !errors.As(err, &load) || load.Dir != path {
			t.Errorf("%s: error is %v, want a *LoadError for %s", name, err, path)
			continue
		}
		for _, want := range []string{path, "volumeMounts:", "secretName:"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error does not contain %q: %v", name, want, err)
			}
		}
	}
}

func TestSameBackend(t *testing.T) {
	for name, change := range map[string]func(*binding.Binding){
		"type":     func(b *binding.Binding) { b.Type = binding.TypeLease },
		"instance": func(b *binding.Binding) { b.Instance = "uid-2" },
		"prefix":   func(b *binding.Binding) { b.Prefix = "lk:{payments/other}:" },
	} {
		b := redisBinding()
		change(b)
		if b.SameBackend(redisBinding()) {
			t.Errorf("a binding with another %s is taken for the same backend", name)
		}
	}
	b := redisBinding()
	b.Redis.Password, b.Redis.CA, b.TTLMax = "next", []byte("ca"), 2*time.Hour
	if !b.SameBackend(redisBinding()) {
		t.Error("rotated credentials are taken for another backend")
	}
}

func FuzzParse(f *testing.F) {
	f.Add("redis", "payments/billing", "lk:{payments/billing}:", "30s", "6379", "true")
	f.Add("lease", "a/b", "lk:{a/b}:", "1h", "0", "")
	f.Fuzz(func(t *testing.T, kind, namespace, prefix, ttl, port, tls string) {
		entries := map[string][]byte{
			"provider": []byte("lockstead"), "type": []byte(kind), "lock-namespace": []byte(namespace), "prefix": []byte(prefix), "instance": []byte("i"),
			"ttl-default": []byte(ttl), "ttl-max": []byte(ttl), "host": []byte("h"), "port": []byte(port), "username": []byte("u"), "password": []byte("p"),
			"tls": []byte(tls), "access": []byte("functions"), "epoch": []byte(port), "fallback-condition": nil, "fallback-fix": nil,
		}
		b, err := binding.Parse(entries)
		if err != nil {
			return
		}
		again, err := b.Encode()
		if err != nil {
			t.Fatalf("a binding that was parsed is not encoded: %v", err)
		}
		back, err := binding.Parse(again)
		if err != nil || !back.SameBackend(b) || back.TTLDefault != b.TTLDefault {
			t.Errorf("%v came back as %v, %v", b, back, err)
		}
	})
}
