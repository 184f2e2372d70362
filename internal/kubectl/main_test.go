// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/controllers"
	"github.com/lockstead/lockstead/controllers/controllertest"
	"github.com/lockstead/lockstead/controllers/redisinstance"
	"github.com/lockstead/lockstead/internal/redisadmin"
	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/redislock"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
	"github.com/lockstead/lockstead/pkg/lockstead/leaselock"
)

// environment is an API server on which an operator runs.
var environment *controllertest.Environment

// patience is for a machine under load; nothing waits for it to pass.
const patience = 30 * time.Second

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	// The clients' own logs would stand between what the tests say.
	log.SetLogger(logr.Discard())
	redis.SetLogger(silent{})
	started, err := controllertest.Start(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	environment = started
	ctx, stop := context.WithCancel(context.Background())
	ended, err := operate(ctx)
	code := 1
	if err == nil {
		code = m.Run()
	}
	stop()
	if err == nil {
		err = <-ended
	}
	if stopErr := started.Stop(); err == nil {
		err = stopErr
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// operate runs the operator.
func operate(ctx context.Context) (<-chan error, error) {
	mgr, err := ctrl.NewManager(environment.ManagerConfig, ctrl.Options{
		Scheme: controllertest.Scheme(), Cache: controllers.CacheOptions(), Client: controllers.ClientOptions(),
		Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
	})
	if err != nil {
		return nil, err
	}
	if err := controllers.Setup(mgr, controllers.Options{Connector: redisadmin.NewConnector(nil)}); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	return ended, nil
}

// kubeconfig writes a kubeconfig with the administrator's rights in it, and a namespace.
func kubeconfig(t *testing.T, namespace string, change ...func(*clientcmdapi.Config)) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{Server: environment.Config.Host, CertificateAuthorityData: environment.Config.CAData}
	config.AuthInfos["admin"] = &clientcmdapi.AuthInfo{ClientCertificateData: environment.Config.CertData, ClientKeyData: environment.Config.KeyData}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "admin", Namespace: namespace}
	config.CurrentContext = "test"
	for _, f := range change {
		f(config)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// said is what a command line came to.
type said struct {
	code     int
	out, err string
}

// say runs a command line against the test's cluster.
func say(t *testing.T, kubeconfig, input string, args ...string) said {
	t.Helper()
	return sayIn(t.Context(), t, clock.RealClock{}, kubeconfig, input, args...)
}

func sayIn(ctx context.Context, t *testing.T, c clock.Clock, kubeconfig, input string, args ...string) said {
	t.Helper()
	var out, err bytes.Buffer
	if kubeconfig != "" {
		args = append(args, "--kubeconfig", kubeconfig)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	code := Run(ctx, Terminal{In: strings.NewReader(input), Out: &out, Err: &err, Clock: c, Version: "test"}, args)
	return said{code, out.String(), err.String()}
}

// wantProblem wants a command to fail with one sentence that has all these texts in it.
func wantProblem(t *testing.T, s said, code int, texts ...string) {
	t.Helper()
	if s.code != code || !strings.HasPrefix(s.err, "error: ") || strings.Count(s.err, "\n") != 1 {
		t.Fatalf("it ended with %d, want %d and one sentence: %q", s.code, code, s.err)
	}
	for _, text := range texts {
		if !strings.Contains(s.err, text) {
			t.Errorf("it says %q, want %q in it", s.err, text)
		}
	}
}

func wantDone(t *testing.T, s said) said {
	t.Helper()
	if s.code != 0 {
		t.Fatalf("it ended with %d: %s%s", s.code, s.err, s.out)
	}
	return s
}

// application is a LockNamespace that the operator made ready, and its binding.
type application struct {
	lns     *v1alpha1.LockNamespace
	binding *binding.Binding
}

// applied creates a LockNamespace and waits until it is ready.
func applied(t *testing.T, lns *v1alpha1.LockNamespace) application {
	t.Helper()
	environment.Create(t, lns)
	awaitReady(t, lns)
	var secret corev1.Secret
	if err := environment.Admin.Get(t.Context(), client.ObjectKey{Namespace: lns.Namespace, Name: lns.Status.Binding.Name}, &secret); err != nil {
		t.Fatal(err)
	}
	b, err := binding.Parse(secret.Data)
	if err != nil {
		t.Fatal(err)
	}
	return application{lns, b}
}

func awaitReady(t *testing.T, lns *v1alpha1.LockNamespace) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	events, err := environment.Admin.Watch(ctx, &v1alpha1.LockNamespaceList{}, client.InNamespace(lns.Namespace), client.MatchingFields{"metadata.name": lns.Name})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		if seen, ok := event.Object.(*v1alpha1.LockNamespace); ok && meta.IsStatusConditionTrue(seen.Status.Conditions, v1alpha1.ConditionReady) {
			seen.DeepCopyInto(lns)
			return
		}
	}
	t.Fatalf("LockNamespace %s is not ready after %s", lns.Name, patience)
}

// onLeases is an application without Redis.
func onLeases(t *testing.T, namespace, name string) application {
	t.Helper()
	return applied(t, &v1alpha1.LockNamespace{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
}

// onRedis is an application on a server that runs beside the cluster.
func onRedis(t *testing.T, server *redistest.Server, namespace, name string) application {
	t.Helper()
	host, port, _ := strings.Cut(server.Addr(), ":")
	number, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	environment.Create(t,
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "admin", Labels: map[string]string{redisinstance.LabelCredentials: "true"}},
			StringData: map[string]string{"username": "admin", "password": server.AdminPassword()},
		},
		&v1alpha1.RedisInstance{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "server"}, Spec: v1alpha1.RedisInstanceSpec{
			Mode: v1alpha1.ModeExternal, External: &v1alpha1.ExternalServer{
				Host: host, Port: int32(number), TLS: v1alpha1.ExternalTLS{Mode: v1alpha1.TLSDisabled}, AdminCredentials: v1alpha1.AdminCredentials{SecretName: "admin"},
			},
		}})
	a := applied(t, &v1alpha1.LockNamespace{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.LockNamespaceSpec{InstanceRef: &v1alpha1.InstanceReference{Name: "server"}},
	})
	// Other tests look in all namespaces, and this server ends with the test.
	t.Cleanup(func() {
		if err := environment.Admin.Delete(context.Background(), a.lns); err != nil {
			t.Error(err)
		}
	})
	return a
}

// pod is what the application's locks say of their owner.
const pod = "billing-6f7d9c-x2k4p"

// locks opens the locks as a pod of the application.
func (a application) locks(t *testing.T) *lock.Client {
	t.Helper()
	options := &lock.Options{Owner: pod + "/" + a.lns.Namespace + "/pid-1"}
	var locks *lock.Client
	var err error
	var closeDriver func() error
	if a.binding.Type == binding.TypeLease {
		d, openErr := leaselock.New(environment.Config, a.lns.Namespace, &leaselock.Options{Epoch: a.binding.Lease.Epoch})
		if openErr != nil {
			t.Fatal(openErr)
		}
		closeDriver = d.Close
		locks, err = lock.New(d, a.binding.Prefix, options)
	} else {
		d, openErr := redislock.FromBinding(a.binding, nil)
		if openErr != nil {
			t.Fatal(openErr)
		}
		closeDriver = d.Close
		locks, err = lock.New(d, a.binding.Prefix, options)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		// Handles that are held end with the server.
		_ = locks.Close(ctx)
		_ = closeDriver()
	})
	return locks
}

// mustHold takes a lock.
func mustHold(t *testing.T, locks *lock.Client, key string) *lock.Handle {
	t.Helper()
	h, err := locks.TryAcquire(t.Context(), key, 10*time.Minute, 0)
	if err != nil {
		t.Fatal(err)
	}
	return h
}
