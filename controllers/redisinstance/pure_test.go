// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/internal/redisadmin"
	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
)

func TestImage(t *testing.T) {
	t.Parallel()
	for want, managed := range map[string]v1alpha1.ManagedServer{
		"docker.io/valkey/valkey:8.1":   {Engine: v1alpha1.EngineValkey},
		"docker.io/valkey/valkey:7.2":   {Engine: v1alpha1.EngineValkey, Version: "7.2"},
		"docker.io/library/redis:8.0":   {Engine: v1alpha1.EngineRedis},
		"docker.io/library/redis:7.0.1": {Engine: v1alpha1.EngineRedis, Version: "7.0.1"},
		"example.com/redis@sha256:abcd": {Engine: v1alpha1.EngineRedis, Image: "example.com/redis@sha256:abcd"},
	} {
		if got := image(managed); got != want {
			t.Errorf("image of %+v is %s, want %s", managed, got, want)
		}
	}
}

func TestConfigurationOfAManagedServer(t *testing.T) {
	t.Parallel()
	lines := strings.Split(redisConf(managedServer(instanceWith(&v1alpha1.ManagedServer{Memory: new(resource.MustParse("100Mi"))}))), "\n")
	for _, want := range []string{
		"appendonly yes", "appendfsync always", "maxmemory-policy noeviction", "maxmemory 73400320", "aclfile /etc/lockstead/acl/users.acl", "dir /data",
	} {
		found := false
		for _, line := range lines {
			found = found || line == want
		}
		if !found {
			t.Errorf("the configuration has no line %q", want)
		}
	}
}

func instanceWith(managed *v1alpha1.ManagedServer) *v1alpha1.RedisInstance {
	return &v1alpha1.RedisInstance{
		ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "locks", UID: "uid"},
		Spec:       v1alpha1.RedisInstanceSpec{Mode: v1alpha1.ModeManaged, Managed: managed},
	}
}

// desired is the StatefulSet for a spec.
func desired(t *testing.T, managed *v1alpha1.ManagedServer) *appsv1ac.StatefulSetApplyConfiguration {
	t.Helper()
	instance := instanceWith(managed)
	set, err := desiredStatefulSet(instance, "digest", *managedServer(instance).Storage.Size)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// The Pod Security Standard "restricted" and the probes.
func TestPodIsRestricted(t *testing.T) {
	t.Parallel()
	pod := desired(t, nil).Spec.Template.Spec
	container := pod.Containers[0]
	security := container.SecurityContext
	if !*pod.SecurityContext.RunAsNonRoot || *pod.SecurityContext.RunAsUser == 0 || *pod.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault ||
		*security.AllowPrivilegeEscalation || !*security.ReadOnlyRootFilesystem || len(security.Capabilities.Drop) != 1 || security.Capabilities.Drop[0] != "ALL" ||
		len(security.Capabilities.Add) != 0 || *pod.AutomountServiceAccountToken {
		t.Errorf("the pod is not restricted: %+v %+v", pod.SecurityContext, security)
	}
	for name, probe := range map[string][]string{"readiness": container.ReadinessProbe.Exec.Command, "liveness": container.LivenessProbe.Exec.Command} {
		if command := strings.Join(probe, " "); strings.Contains(command, "-a ") || strings.Contains(command, "--pass") || !strings.HasPrefix(command, "valkey-cli") || !strings.HasSuffix(command, "--user lockstead-probe ping") {
			t.Errorf("the %s probe runs %q", name, command)
		}
	}
	if len(container.Env) != 1 || container.Env[0].Value != nil || *container.Env[0].ValueFrom.SecretKeyRef.Name != "locks-redis-probe" {
		t.Errorf("the environment is %+v", container.Env)
	}
}

func TestStorageAndMemoryOfThePod(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		managed             *v1alpha1.ManagedServer
		size, memory, class string
	}{
		"defaults": {nil, "1Gi", "256Mi", ""},
		"given": {&v1alpha1.ManagedServer{
			Memory:  new(resource.MustParse("1Gi")),
			Storage: &v1alpha1.Storage{Size: new(resource.MustParse("5Gi")), StorageClassName: new("fast")},
		}, "5Gi", "1Gi", "fast"},
	} {
		set := desired(t, tc.managed).Spec
		claim := set.VolumeClaimTemplates[0].Spec
		size := (*claim.Resources.Requests)[corev1.ResourceStorage]
		memory := (*set.Template.Spec.Containers[0].Resources.Limits)[corev1.ResourceMemory]
		class := ""
		if claim.StorageClassName != nil {
			class = *claim.StorageClassName
		}
		if size.String() != tc.size || memory.String() != tc.memory || class != tc.class {
			t.Errorf("%s: size %s, memory %s, class %q", name, size.String(), memory.String(), class)
		}
	}
}

func TestBootDigestFollowsWhatThePodNeedsAtStart(t *testing.T) {
	t.Parallel()
	base := bootDigest(instanceWith(nil), []string{"a", "b"})
	if base != bootDigest(instanceWith(nil), []string{"a", "b"}) {
		t.Error("the digest is not stable, so the pod would restart for nothing")
	}
	if base == bootDigest(instanceWith(nil), []string{"a", "c"}) {
		t.Error("a new password does not restart the pod")
	}
	if base == bootDigest(instanceWith(&v1alpha1.ManagedServer{Memory: new(resource.MustParse("1Gi"))}), []string{"a", "b"}) {
		t.Error("a new configuration does not restart the pod")
	}
}

func TestBootFile(t *testing.T) {
	t.Parallel()
	hash := redisproto.PasswordHash("x")
	system := systemUsers("operator-word", "probe-word")
	b := tenantUser("uid", "lk-b", redisproto.Prefix("lk", "a/b"), binding.AccessFunctions, false, []string{hash})
	a := tenantUser("uid", "lk-a", redisproto.Prefix("lk", "a/a"), binding.AccessFunctions, false, []string{hash})
	text, err := bootFile(system, []redisproto.User{b, a})
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := bootFile(system, []redisproto.User{a, b}); again != text {
		t.Error("another order of the same users gives another file")
	}
	if strings.Contains(text, "word") {
		t.Error("the file has a password")
	}
	users := parseBootFile(text + "user lk-broken on nopass ~* +@all\x00\nuser people on nopass\ngarbage\nuser lk-off off\n")
	if len(users) != 2 || users[0].Name != "lk-a" || users[1].Name != "lk-b" {
		t.Fatalf("read %+v", users)
	}
	if again, err := bootFile(system, withUser(users, b)); err != nil || again != text {
		t.Errorf("a file that was read and written is another one: %v\n%s", err, again)
	}
	if users := withoutUser(users, "lk-a"); len(users) != 1 || users[0].Name != "lk-b" {
		t.Errorf("left are %+v", users)
	}
}

func TestConditions(t *testing.T) {
	t.Parallel()
	good := redisadmin.Server{
		Primary: true, Functions: true, Settings: redisadmin.Settings{Known: true, Values: map[string]string{
			"appendonly": "yes", "appendfsync": "always", "maxmemory-policy": "noeviction",
		}},
		DefaultUser: redisadmin.DefaultUser{Known: true},
	}
	with := func(change func(*redisadmin.Server)) observation {
		server := good
		server.Settings.Values = maps.Clone(good.Settings.Values)
		change(&server)
		return observation{server: &server, plan: plan{grant: true, epoch: 1}}
	}
	for name, tc := range map[string]struct {
		observation            observation
		available, safe, ready string
	}{
		"good":                      {with(func(*redisadmin.Server) {}), "True Available", "True Safe", "True Ready"},
		"the file fails":            {with(func(s *redisadmin.Server) { s.AOFError = true }), "True Available", "False AOFWriteFailing", "False AOFWriteFailing"},
		"settings are hidden":       {with(func(s *redisadmin.Server) { s.Settings = redisadmin.Settings{} }), "True Available", "Unknown Unverified", "Unknown Unverified"},
		"the user is hidden":        {with(func(s *redisadmin.Server) { s.DefaultUser.Known = false }), "True Available", "Unknown Unverified", "Unknown Unverified"},
		"restricted without a file": {with(func(s *redisadmin.Server) { s.DefaultUser.Restricted, s.Settings.Values["appendonly"] = true, "no" }), "True Available", "True Safe", "True Ready"},
		"it is old":                 {with(func(s *redisadmin.Server) { s.Engine, s.Version = "Redis", "6.2.14" }), "True Available", "False VersionTooOld", "False VersionTooOld"},
		"it is the oldest":          {with(func(s *redisadmin.Server) { s.Engine, s.Version = "Redis", "7.0.0" }), "True Available", "True Safe", "True Ready"},
		"another one is old":        {with(func(s *redisadmin.Server) { s.Engine, s.Version = "Valkey", "7.1.9" }), "True Available", "False VersionTooOld", "False VersionTooOld"},
		"its version is hidden":     {with(func(s *redisadmin.Server) { s.Engine, s.Version = "Redis", "" }), "True Available", "True Safe", "True Ready"},
		"it is nearly full": {
			with(func(s *redisadmin.Server) { s.UsedMemory, s.MaxMemory = 91, 100 }), "True Available", "False MemoryNearlyFull", "False MemoryNearlyFull",
		},
		"it is half full": {with(func(s *redisadmin.Server) { s.UsedMemory, s.MaxMemory = 50, 100 }), "True Available", "True Safe", "True Ready"},
		"not reached": {
			observation{unavailable: &unavailableError{v1alpha1.ReasonUnreachable, "m"}}, "False Unreachable", "Unknown Unverified", "False Unreachable",
		},
		"quarantined": {
			observation{server: &good, plan: plan{epoch: 1, quarantineUntil: time.Unix(1, 0)}}, "False Quarantined", "True Safe", "False Quarantined",
		},
	} {
		got := map[string]string{}
		for _, condition := range conditions(tc.observation) {
			got[condition.Type] = string(condition.Status) + " " + condition.Reason
			if condition.Message == "" {
				t.Errorf("%s: %s has no message", name, condition.Type)
			}
		}
		if got[v1alpha1.ConditionAvailable] != tc.available || got[v1alpha1.ConditionLockSafe] != tc.safe || got[v1alpha1.ConditionReady] != tc.ready {
			t.Errorf("%s: conditions are %v", name, got)
		}
	}
}

func TestSettingsThatWereChangedByHand(t *testing.T) {
	t.Parallel()
	conf := desiredConfigMap(instanceWith(nil)).Data[configFile]
	live := map[string]string{"appendonly": "yes", "save": "", "maxmemory-policy": "noeviction", "min-replicas-to-write": "0", "unknown": "x"}
	if changes := changedSettings(conf, live); len(changes) > 0 {
		t.Errorf("changes of a server that is right: %v", changes)
	}
	live["save"], live["min-replicas-to-write"], live["appendonly"] = "60 1", "2", "no"
	want := []settingChange{{"appendonly", "no", "yes"}, {"min-replicas-to-write", "2", "0"}, {"save", "60 1", ""}}
	if changes := changedSettings(conf, live); !slices.Equal(changes, want) {
		t.Errorf("changes are %v", changes)
	}
}

func TestAnAppendOnlyFileKeepsNothingBeforeItIsWritten(t *testing.T) {
	t.Parallel()
	server := redisadmin.Server{
		RunID: "a", Primary: true, DefaultUser: redisadmin.DefaultUser{Known: true},
		Settings: redisadmin.Settings{Known: true, Values: map[string]string{"appendonly": "yes", "appendfsync": "always"}},
	}
	rewriting := server
	rewriting.AOFRewriting = true
	before := []v1alpha1.Capability{v1alpha1.CapabilityDurable}
	for name, tc := range map[string]struct {
		server redisadmin.Server
		status v1alpha1.RedisInstanceStatus
		want   bool
	}{
		"written":                       {server, v1alpha1.RedisInstanceStatus{RunID: "a"}, true},
		"just switched on":              {rewriting, v1alpha1.RedisInstanceStatus{RunID: "a"}, false},
		"written anew, as now and then": {rewriting, v1alpha1.RedisInstanceStatus{RunID: "a", Capabilities: before}, true},
		"written anew after a start":    {rewriting, v1alpha1.RedisInstanceStatus{RunID: "b"}, true},
	} {
		if got := selfArms(tc.server, tc.status); got != tc.want {
			t.Errorf("%s: arms itself: %t", name, got)
		}
	}
}

func TestUsersAreReadInTurn(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "c", "d", "e"}
	for _, tc := range []struct {
		after string
		n     int
		want  string
	}{{"", 2, "ab"}, {"b", 2, "cd"}, {"d", 3, "eab"}, {"e", 2, "ab"}, {"bb", 1, "c"}, {"a", 9, "bcdea"}} {
		if got := strings.Join(nextOf(names, tc.after, tc.n), ""); got != tc.want {
			t.Errorf("%d after %q are %q, want %q", tc.n, tc.after, got, tc.want)
		}
	}
	for _, look := range []time.Duration{periodManaged, periodExternal} {
		for _, n := range []int{1, 100, 5000} {
			if within := time.Duration((n+perLook(n, look)-1)/perLook(n, look)) * look; within > 5*time.Minute {
				t.Errorf("%d users are read within %s", n, within)
			}
		}
	}
}

func TestUnsupportedServers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		server redisadmin.Server
		want   string
	}{
		"good":         {redisadmin.Server{Primary: true, Functions: true}, ""},
		"a cluster":    {redisadmin.Server{Primary: true, Functions: true, Cluster: true}, "cluster mode"},
		"a replica":    {redisadmin.Server{Functions: true}, "replica"},
		"an old one":   {redisadmin.Server{Primary: true, Scripts: true, Engine: "Redis", Version: "6.2.14"}, "keeps loaded scripts over a restart"},
		"only scripts": {redisadmin.Server{Primary: true, Scripts: true}, ""},
		"neither":      {redisadmin.Server{Primary: true, Engine: "Redis", Version: "7.2"}, "Grant it FUNCTION, or SCRIPT"},
	} {
		err := unsupported(tc.server)
		if (err == nil) != (tc.want == "") || (err != nil && !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Whoever hides the settings or the default user of a server should know what that costs.
func TestHiddenSettingsCostTheLongestTTLAtEachRestart(t *testing.T) {
	t.Parallel()
	for name, server := range map[string]redisadmin.Server{
		"settings": {Engine: "Redis", Version: "7.0.15", Functions: true, DefaultUser: redisadmin.DefaultUser{Known: true}},
		"user":     {Engine: "Redis", Version: "7.0.15", Functions: true, Settings: redisadmin.Settings{Known: true, Values: map[string]string{"maxmemory-policy": "noeviction"}}},
	} {
		got := lockSafety(observation{server: &server, shared: true})
		if got.Status != metav1.ConditionUnknown || !strings.Contains(got.Message, "after each restart until the longest TTL is over") {
			t.Errorf("hidden %s: %s %q", name, got.Status, got.Message)
		}
	}
}
