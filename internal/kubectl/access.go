// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstead/lockstead/api/v1alpha1"
)

// requestTimeout bounds one request to the API server unless --request-timeout says otherwise, so that a cut-off connection does not hang the command.
const requestTimeout = 30 * time.Second

// access is what the flags say about the cluster.
type access struct {
	kubeconfig   string
	overrides    clientcmd.ConfigOverrides
	redisAddress string
}

func newAccess(flags *pflag.FlagSet) *access {
	a := &access{}
	flags.StringVar(&a.kubeconfig, clientcmd.RecommendedConfigPathFlag, "", "path of the kubeconfig (default: $KUBECONFIG, else ~/.kube/config)")
	clientcmd.BindOverrideFlags(&a.overrides, flags, clientcmd.RecommendedConfigOverrideFlags(""))
	flags.StringVar(&a.redisAddress, "redis-address", "", "host:port at which the Redis server is reached from here, for example of a tunnel")
	return a
}

// cluster is the way to a cluster, with the rights of the user.
type cluster struct {
	client    client.Client
	clientset kubernetes.Interface
	config    *rest.Config
	// namespace is the one that the flags or the context name.
	namespace    string
	redisAddress string
}

// connect reads the kubeconfig. It contacts nobody.
func (a *access) connect() (*cluster, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = a.kubeconfig
	// It would print, beside the error, which files it did not find.
	rules.WarnIfAllMissing = false
	raw, err := rules.Load()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, problemf("there is no kubeconfig %s: give another --kubeconfig", a.kubeconfig)
	}
	if err != nil {
		return nil, &Problem{Text: fmt.Sprintf("cannot read the kubeconfig: %s: repair it, or give another --kubeconfig", oneLine(err.Error())), Err: err}
	}
	if err := checkContext(raw, &a.overrides); err != nil {
		return nil, err
	}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &a.overrides)
	config, err := loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, problemf("there is no kubeconfig that names a cluster: set KUBECONFIG, or give --kubeconfig")
	}
	if err != nil {
		return nil, &Problem{Text: fmt.Sprintf("the kubeconfig cannot be used: %s: repair it, or choose another --context", oneLine(err.Error())), Err: err}
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, &Problem{Text: fmt.Sprintf("the kubeconfig names no namespace: %s: give one with --namespace", oneLine(err.Error())), Err: err}
	}
	return newCluster(config, namespace, a.redisAddress)
}

func newCluster(config *rest.Config, namespace, redisAddress string) (*cluster, error) {
	if config.Timeout == 0 {
		config.Timeout = requestTimeout
	}
	// The default of 5 requests a second would make a cluster with many LockNamespaces slow to look through.
	config.QPS, config.Burst = 50, 100
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, &Problem{Text: "this is a fault of the program: " + oneLine(err.Error()), Err: err}
	}
	objects, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, explainAPI(config.Host, "use the kubeconfig", err)
	}
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, explainAPI(config.Host, "use the kubeconfig", err)
	}
	return &cluster{client: objects, clientset: clientset, config: config, namespace: namespace, redisAddress: redisAddress}, nil
}

// explain tells what a failed request means.
func (c *cluster) explain(doing string, err error) error {
	return explainAPI(c.config.Host, doing, err)
}

// checkContext refuses a context that does not exist, and a kubeconfig with several of which none is chosen.
func checkContext(config *clientcmdapi.Config, overrides *clientcmd.ConfigOverrides) error {
	names := slices.Sorted(maps.Keys(config.Contexts))
	chosen := overrides.CurrentContext
	switch {
	case chosen != "" && config.Contexts[chosen] == nil && len(names) == 0:
		return problemf("the kubeconfig has no contexts, and so none named %q: set KUBECONFIG, or give --kubeconfig", chosen)
	case chosen != "" && config.Contexts[chosen] == nil:
		return problemf("the kubeconfig has no context %q: choose one of %s with --context", chosen, strings.Join(names, ", "))
	case chosen != "" || overrides.ClusterInfo.Server != "" || overrides.Context.Cluster != "" || len(names) == 0:
		return nil
	case config.CurrentContext == "":
		return problemf("the kubeconfig has no current context: choose one of %s with --context", strings.Join(names, ", "))
	case config.Contexts[config.CurrentContext] == nil:
		return problemf("the current context %q is not in the kubeconfig: choose one of %s with --context", config.CurrentContext, strings.Join(names, ", "))
	}
	return nil
}
