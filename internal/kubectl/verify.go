// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock"
)

// outcome is what came of a step.
type outcome string

const (
	passed  outcome = "ok"
	failed  outcome = "FAILED"
	noticed outcome = "note"
	skipped outcome = "skipped"
)

// step is one thing that has to be right before a pod can lock.
type step struct {
	Name    string  `json:"name"`
	Outcome outcome `json:"outcome"`
	// Says is what was found, and what to do about it.
	Says string `json:"says"`
}

// verification is what verify prints for programs.
type verification struct {
	typed
	Namespace     string `json:"namespace"`
	LockNamespace string `json:"lockNamespace"`
	Steps         []step `json:"steps"`
}

func newVerify(terminal Terminal, a *access) *cobra.Command {
	var format string
	command := &cobra.Command{
		Use:   "verify [LOCKNAMESPACE]",
		Short: "Check step by step whether the pods of an application can lock",
		Long: `Check step by step whether the pods of an application can lock, and say what to fix.

On Redis, it logs in as the application, and takes and releases a lock on a key of its own. It does so from here, so it cannot see what a network policy or the
DNS does to the pods.`,
		Example: "  kubectl lockstead verify billing -n payments",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if err := checkOutput(format); err != nil {
				return err
			}
			c, err := a.connect()
			if err != nil {
				return err
			}
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			return runVerify(command.Context(), terminal, c, name, format)
		},
	}
	addOutput(command.Flags(), &format)
	return command
}

func runVerify(ctx context.Context, terminal Terminal, c *cluster, name, format string) error {
	lns, err := c.tenant(ctx, name)
	if err != nil {
		return err
	}
	v := verification{typed: typed{outputVersion, "Verification"}, Namespace: lns.Namespace, LockNamespace: lns.Name, Steps: c.verify(ctx, lns)}
	if ctx.Err() != nil {
		return problemf("interrupted")
	}
	if format == formatJSON || format == formatYAML {
		err = printDocument(terminal.Out, format, v)
	} else {
		err = write(terminal.Out, renderSteps(v.Steps))
	}
	if err != nil {
		return err
	}
	for _, s := range v.Steps {
		if s.Outcome == failed {
			return problemf("pods of LockNamespace %s/%s cannot lock: %s", lns.Namespace, lns.Name, s.Says)
		}
	}
	return nil
}

// verify does the steps in the order in which one needs the other, and ends at the first that makes the rest pointless.
func (c *cluster) verify(ctx context.Context, lns *v1alpha1.LockNamespace) []step {
	steps := []step{checkReady(lns)}
	b, err := c.binding(ctx, lns)
	if err != nil {
		return append(steps, step{"binding", failed, err.Error()})
	}
	bound := checkBinding(lns, b)
	steps = append(steps, bound, c.checkPods(ctx, lns))
	switch {
	case bound.Outcome == failed:
		return steps
	case b.Type == binding.TypeLease:
		return append(steps, c.checkRights(ctx, lns)...)
	}
	return append(steps, c.checkServer(ctx, lns, b)...)
}

func checkReady(lns *v1alpha1.LockNamespace) step {
	if ready, words := readiness(lns.Status.Conditions, lns.Generation); !ready {
		return step{"operator", failed, words}
	}
	return step{"operator", passed, "LockNamespace is Ready on backend " + string(lns.Status.Backend)}
}

// checkBinding compares the Secret with what the operator recorded.
func checkBinding(lns *v1alpha1.LockNamespace, b *binding.Binding) step {
	name := lns.Status.Binding.Name
	wrong := ""
	switch {
	case b.Prefix != lns.Status.Prefix:
		wrong = "prefix"
	case !strings.EqualFold(string(b.Type), string(lns.Status.Backend)):
		wrong = "type"
	case b.Redis != nil && lns.Status.InstanceRef != nil && b.Instance != lns.Status.InstanceRef.UID:
		wrong = "instance"
	}
	if wrong != "" {
		return step{"binding", failed, fmt.Sprintf("entry %q of Secret %s is not what the status says: delete the Secret, and the operator writes it anew", wrong, name)}
	}
	return step{"binding", passed, "Secret " + name + " is complete"}
}

// checkPods looks whether pods mount the Secret as the library needs it.
func (c *cluster) checkPods(ctx context.Context, lns *v1alpha1.LockNamespace) step {
	var pods corev1.PodList
	if err := c.client.List(ctx, &pods, client.InNamespace(lns.Namespace)); err != nil {
		return step{"pods", skipped, c.explain("list the pods of namespace "+lns.Namespace, err).Error()}
	}
	return judgePods(lns, pods.Items)
}

func judgePods(lns *v1alpha1.LockNamespace, pods []corev1.Pod) step {
	secret := lns.Status.Binding.Name
	mounting := 0
	for i := range pods {
		volume := volumeOf(&pods[i].Spec, secret)
		if volume == "" {
			continue
		}
		mounting++
		if container := subPathOf(&pods[i].Spec, volume); container != "" {
			return step{"pods", failed, fmt.Sprintf("container %s of pod %s mounts Secret %s with a subPath, which is not refreshed when the password changes: mount the whole volume",
				container, pods[i].Name, secret)}
		}
		if account := accountOf(&pods[i].Spec); lns.Status.Backend == v1alpha1.BackendLease && !slices.Contains(lns.Spec.Consumers, account) {
			return step{"pods", failed, fmt.Sprintf("pod %s runs as service account %s, which may not write Leases: add it to spec.consumers of the LockNamespace",
				pods[i].Name, account)}
		}
	}
	if mounting == 0 {
		return step{"pods", noticed, fmt.Sprintf("no pod mounts Secret %s: add a volume with secretName: %s, and mount it at /var/run/lockstead", secret, secret)}
	}
	return step{"pods", passed, fmt.Sprintf("%d pods mount Secret %s", mounting, secret)}
}

func accountOf(spec *corev1.PodSpec) string {
	if spec.ServiceAccountName == "" {
		return "default"
	}
	return spec.ServiceAccountName
}

// volumeOf is the name of the volume with a Secret, "" without one.
func volumeOf(spec *corev1.PodSpec, secret string) string {
	for i := range spec.Volumes {
		v := &spec.Volumes[i]
		if v.Secret != nil && v.Secret.SecretName == secret {
			return v.Name
		}
		if v.Projected == nil {
			continue
		}
		for _, source := range v.Projected.Sources {
			if source.Secret != nil && source.Secret.Name == secret {
				return v.Name
			}
		}
	}
	return ""
}

func subPathOf(spec *corev1.PodSpec, volume string) string {
	for i := range spec.Containers {
		for _, mount := range spec.Containers[i].VolumeMounts {
			if mount.Name == volume && (mount.SubPath != "" || mount.SubPathExpr != "") {
				return spec.Containers[i].Name
			}
		}
	}
	return ""
}

// leaseVerbs are what the Lease driver does.
var leaseVerbs = []string{"get", "list", "watch", "create", "update", "delete"}

// checkRights asks the API server what the consumers may do with Leases.
func (c *cluster) checkRights(ctx context.Context, lns *v1alpha1.LockNamespace) []step {
	var steps []step
	for _, account := range lns.Spec.Consumers {
		steps = append(steps, c.checkAccount(ctx, lns, account))
	}
	return steps
}

func (c *cluster) checkAccount(ctx context.Context, lns *v1alpha1.LockNamespace, account string) step {
	name := "rights of service account " + account
	var missing []string
	for _, verb := range leaseVerbs {
		review, err := c.clientset.AuthorizationV1().LocalSubjectAccessReviews(lns.Namespace).Create(ctx, &authorizationv1.LocalSubjectAccessReview{
			ObjectMeta: metav1.ObjectMeta{Namespace: lns.Namespace},
			Spec: authorizationv1.SubjectAccessReviewSpec{
				User:               "system:serviceaccount:" + lns.Namespace + ":" + account,
				Groups:             []string{"system:serviceaccounts", "system:serviceaccounts:" + lns.Namespace, "system:authenticated"},
				ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: lns.Namespace, Verb: verb, Group: "coordination.k8s.io", Resource: "leases"},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			return step{name, skipped, c.explain("ask what the service account may do", err).Error()}
		}
		if !review.Status.Allowed {
			missing = append(missing, verb)
		}
	}
	if len(missing) > 0 {
		return step{name, failed, fmt.Sprintf("it may not %s Leases: see whether RoleBinding lockstead-%s names it, which the operator makes", strings.Join(missing, ", "), lns.Name)}
	}
	return step{name, passed, "it may write Leases"}
}

// checkServer goes the way of an application, one step after the other.
func (c *cluster) checkServer(ctx context.Context, lns *v1alpha1.LockNamespace, b *binding.Binding) []step {
	w := wayTo(lns.Status.InstanceRef, b.Redis, c.redisAddress)
	steps := []step{c.checkName(ctx, lns, b, w)}
	conn, err := w.connect(ctx, c.config)
	if err != nil {
		return append(steps, step{"connection", failed, fmt.Sprintf("%s cannot be reached (%s): %s", w, oneLine(err.Error()), remedyOf(w))})
	}
	steps = append(steps, step{"connection", passed, w.String() + " answers"})
	secured, err := secure(ctx, conn, b.Redis)
	if err != nil {
		return append(steps, step{"TLS", failed, fmt.Sprintf("the certificate for %s is not accepted (%s): see condition TLSReady of the RedisInstance", b.Redis.Host, oneLine(err.Error()))})
	}
	_ = secured.Close()
	if b.Redis.TLS {
		steps = append(steps, step{"TLS", passed, "the certificate is valid for " + b.Redis.Host})
	} else {
		steps = append(steps, step{"TLS", noticed, "connections are in the clear, as the RedisInstance says"})
	}
	return append(steps, c.checkLock(ctx, lns, b))
}

// checkName looks whether the name in the binding leads pods to the server.
func (c *cluster) checkName(ctx context.Context, lns *v1alpha1.LockNamespace, b *binding.Binding, w way) step {
	if w.pod == "" {
		return step{"DNS", skipped, b.Redis.Host + " is a name outside the cluster, which only a pod can look up as pods do"}
	}
	service, namespace := lns.Status.InstanceRef.Name+"-redis", lns.Status.InstanceRef.Namespace
	err := c.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: service}, &corev1.Service{})
	switch {
	case apierrors.IsNotFound(err):
		return step{"DNS", failed, fmt.Sprintf("%s has no Service %s/%s behind it: see whether the operator runs, which makes it", b.Redis.Host, namespace, service)}
	case err != nil:
		return step{"DNS", skipped, c.explain("read Service "+namespace+"/"+service, err).Error()}
	}
	return step{"DNS", passed, fmt.Sprintf("%s is Service %s/%s", b.Redis.Host, namespace, service)}
}

// checkTTL is short, in case the release is lost.
const checkTTL = 5 * time.Second

// checkLock logs in as the application and takes a lock that nobody else wants.
func (c *cluster) checkLock(ctx context.Context, lns *v1alpha1.LockNamespace, b *binding.Binding) step {
	const name = "login, ACL and lock"
	s, err := c.openRedis(lns, b)
	if err != nil {
		return step{name, failed, err.Error()}
	}
	defer s.close()
	h, err := s.TryAcquire(ctx, lock.Key("lockstead-verify", rand.Text()), min(checkTTL, b.TTLMax), 0)
	if err != nil {
		return step{name, failed, s.explain(c, "take a lock", err).Error()}
	}
	token := h.Token()
	if err := h.Release(ctx); err != nil {
		return step{name, failed, s.explain(c, "release a lock", err).Error()}
	}
	return step{name, passed, "a lock was taken with token " + shortToken(token) + ", and released"}
}

// renderSteps is what verify prints for people.
func renderSteps(steps []step) string {
	var b strings.Builder
	for _, s := range steps {
		fmt.Fprintf(&b, "%-8s %s: %s\n", s.Outcome, s.Name, s.Says)
	}
	return b.String()
}
