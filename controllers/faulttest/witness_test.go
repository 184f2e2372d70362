// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package faulttest_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/redislock"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
)

// witness remembers what must not be taken back.
type witness struct {
	// epochs are the greatest ones of RedisInstances and of records.
	epochs  map[types.UID]int64
	records map[string]uint64
	// passwords are all that were in a Secret, by its name, in the order in which they were seen.
	passwords map[string][]string
	// held is the lock that somebody holds, until a time of his own.
	held     driver.AcquireRequest
	deadline clock.Instant
	// tokens are the greatest ones of each prefix.
	tokens map[string]driver.Token
	// pods log in with the passwords that they were started with.
	pods []pod
	// uninterrupted: what is told to be ready has to work all the time. Otherwise something happens that the operator has to see first, so that it is
	// wanted at rest.
	uninterrupted, atRest bool

	asking *redislock.Driver
	ids    int
}

func newWitness() witness {
	return witness{epochs: map[types.UID]int64{}, records: map[string]uint64{}, passwords: map[string][]string{}, tokens: map[string]driver.Token{}}
}

// pod is an application's that keeps the password that it read from a Secret.
type pod struct {
	username, password string
	until              time.Time
}

// observe checks what has to be true at any time.
func (w *world) observe() {
	w.t.Helper()
	w.refresh()
	w.observeEpochs()
	w.observeSecrets()
	if w.down {
		return
	}
	w.observeHolder()
	for _, pod := range w.pods {
		if w.clock.Now().Before(pod.until) {
			w.wantLogin(pod.username, pod.password, "a pod with the password that it was started with")
		}
	}
	for i := range w.namespaces {
		w.observeNamespace(&w.namespaces[i])
	}
}

func (w *world) observeEpochs() {
	w.t.Helper()
	for i := range w.instances {
		instance := &w.instances[i]
		w.tell(instance)
		if epoch := instance.Status.Epoch; epoch < w.epochs[instance.UID] {
			w.t.Errorf("the epoch of %s was %d and is %d", instance.Name, w.epochs[instance.UID], epoch)
		}
		w.epochs[instance.UID] = instance.Status.Epoch
	}
	if w.down {
		return
	}
	for key, text := range w.epochRecords() {
		record, err := redisproto.ParseEpoch(text)
		if err != nil || record.Number < w.records[key] {
			w.t.Errorf("the record %s was of epoch %d and is %q", key, w.records[key], text)
		}
		w.records[key] = record.Number
	}
}

// epochRecords are the values of all epoch records of the server.
func (w *world) epochRecords() map[string]string {
	w.t.Helper()
	keys, err := w.admin.Keys(w.t.Context(), "*!epoch").Result()
	w.must(err)
	records := map[string]string{}
	for _, key := range keys {
		records[key], err = w.admin.Get(w.t.Context(), key).Result()
		w.must(err)
	}
	return records
}

func (w *world) observeSecrets() {
	w.t.Helper()
	var secrets corev1.SecretList
	w.list(&secrets)
	for _, secret := range secrets.Items {
		seen := w.passwords[secret.Name]
		if password := string(secret.Data["password"]); password != "" && !slices.Contains(seen, password) {
			w.passwords[secret.Name] = append(seen, password)
		}
	}
}

// hold takes a lock of an application, which its holder counts on for the longest TTL.
func (w *world) hold(prefix string) {
	w.t.Helper()
	w.held = w.request(prefix, "held")
	w.deadline = w.lockClock.Now().Add(maxTTL)
	grant, err := w.driver().Acquire(w.t.Context(), w.held)
	w.must(err)
	w.tokens[prefix] = grant.Token
}

func (w *world) request(prefix, name string) driver.AcquireRequest {
	w.ids++
	return driver.AcquireRequest{
		Key: driver.Key{Prefix: prefix, Name: name}, ID: fmt.Sprintf("%032x", w.ids), TTL: maxTTL, Owner: "test", OnLost: func(error) {},
	}
}

// driver asks for locks with the operator's rights, which a server does not lose with its users.
func (w *world) driver() *redislock.Driver {
	w.t.Helper()
	if w.asking != nil {
		return w.asking
	}
	d, err := redislock.New(w.admin, &redislock.Options{Operated: true})
	w.must(err)
	w.t.Cleanup(func() { _ = d.Close() })
	w.asking = d
	return d
}

// observeHolder has a rival ask for the lock that is held.
func (w *world) observeHolder() {
	w.t.Helper()
	if w.held.ID == "" || w.lockClock.Now() >= w.deadline {
		return
	}
	if grant, err := w.driver().Acquire(w.t.Context(), w.request(w.held.Key.Prefix, w.held.Key.Name)); err == nil {
		w.t.Errorf("a lock was granted a second time, with token %s, %s before the time of its holder was over", grant.Token, w.deadline.Sub(w.lockClock.Now()))
	}
}

// observeNamespace wants what is told to be ready to work: the password of the Secret logs in, locks are granted, and tokens grow.
func (w *world) observeNamespace(lns *v1alpha1.LockNamespace) {
	w.t.Helper()
	w.tell(lns)
	ready := meta.FindStatusCondition(lns.Status.Conditions, v1alpha1.ConditionReady)
	if lns.Status.Backend != v1alpha1.BackendRedis || ready == nil || ready.Status != metav1.ConditionTrue || !w.uninterrupted && !w.atRest {
		return
	}
	secret := &corev1.Secret{}
	if !w.get(secret, lns.Status.Binding.Name) {
		return // Somebody deleted it, and the operator has not looked yet.
	}
	username, prefix := string(secret.Data["username"]), string(secret.Data["prefix"])
	client := w.server.Client(w.t, username, string(secret.Data["password"]))
	defer func() { _ = client.Close() }()
	d, err := redislock.New(client, nil)
	w.must(err)
	defer func() { _ = d.Close() }()
	request := w.request(prefix, "free")
	grant, err := d.Acquire(w.t.Context(), request)
	if err != nil {
		w.t.Errorf("LockNamespace %s is ready, and an application with the password of its Secret gets %v", lns.Name, err)
		return
	}
	if before := w.tokens[prefix]; !before.Less(grant.Token) {
		w.t.Errorf("token %s was granted after %s", grant.Token, before)
	}
	w.tokens[prefix] = grant.Token
	w.must(d.Release(w.t.Context(), driver.ReleaseRequest{Key: request.Key, ID: request.ID}))
}

func (w *world) wantLogin(username, password, who string) {
	w.t.Helper()
	client := w.server.Client(w.t, username, password)
	defer func() { _ = client.Close() }()
	if err := client.Ping(w.t.Context()).Err(); err != nil {
		w.t.Errorf("%s cannot log in as %s: %v", who, username, err)
	}
}

// tell notes what everybody can read of an object.
func (w *world) tell(object any) {
	text, err := json.Marshal(object)
	w.must(err)
	w.told.Write(text)
}

// wantSecrecy wants no password among what was told.
func (w *world) wantSecrecy() {
	w.t.Helper()
	told := w.told.String()
	for name, passwords := range w.passwords {
		for i, password := range passwords {
			if strings.Contains(told, password) {
				w.t.Errorf("password %d of Secret %s is in a status, an event, a log or an error", i, name)
			}
		}
	}
}
