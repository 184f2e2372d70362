// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstead/lockstead/api/v1alpha1"
)

// operatorLabels are those of the operator's Deployment, as the chart and config/ make it.
var operatorLabels = client.MatchingLabels{"app.kubernetes.io/name": "lockstead"}

// overview is what status prints.
type overview struct {
	typed
	Operators      []operatorState `json:"operators"`
	RedisInstances []instanceState `json:"redisInstances"`
	LockNamespaces []tenantState   `json:"lockNamespaces"`
	// Unread says what the user may not read.
	Unread []string `json:"unread,omitempty"`
}

type operatorState struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Ready     int32  `json:"ready"`
	Wanted    int32  `json:"wanted"`
	Image     string `json:"image,omitempty"`
}

type instanceState struct {
	Namespace      string             `json:"namespace"`
	Name           string             `json:"name"`
	Mode           string             `json:"mode"`
	Server         string             `json:"server,omitempty"`
	Endpoint       string             `json:"endpoint,omitempty"`
	Epoch          int64              `json:"epoch,omitempty"`
	LockNamespaces int32              `json:"lockNamespaces"`
	Ready          bool               `json:"ready"`
	Says           []string           `json:"says,omitempty"`
	Conditions     []metav1.Condition `json:"conditions,omitempty"`
}

type tenantState struct {
	Namespace  string             `json:"namespace"`
	Name       string             `json:"name"`
	Backend    string             `json:"backend,omitempty"`
	Instance   string             `json:"instance,omitempty"`
	Prefix     string             `json:"prefix,omitempty"`
	Secret     string             `json:"secret,omitempty"`
	Ready      bool               `json:"ready"`
	Says       []string           `json:"says,omitempty"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

func newStatus(terminal Terminal, a *access) *cobra.Command {
	var all bool
	var format string
	command := &cobra.Command{
		Use:   "status",
		Short: "Show operator, servers and applications, and what is wrong with them in words",
		Example: `  kubectl lockstead status -n payments
  kubectl lockstead status -A -o wide`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := checkOutput(format); err != nil {
				return err
			}
			c, err := a.connect()
			if err != nil {
				return err
			}
			o, err := c.overview(command.Context(), all)
			if err != nil {
				return err
			}
			if format == formatJSON || format == formatYAML {
				return printDocument(terminal.Out, format, o)
			}
			where, _ := c.where(all)
			return write(terminal.Out, renderOverview(o, where, format == formatWide))
		},
	}
	command.Flags().BoolVarP(&all, "all-namespaces", "A", false, "show all namespaces")
	addOutput(command.Flags(), &format)
	return command
}

// overview reads what status shows. The LockNamespaces must be readable; what else is not is said.
func (c *cluster) overview(ctx context.Context, all bool) (overview, error) {
	o := overview{typed: typed{outputVersion, "Status"}, Operators: []operatorState{}, RedisInstances: []instanceState{}, LockNamespaces: []tenantState{}}
	tenants, err := c.tenants(ctx, all)
	if err != nil {
		return o, err
	}
	for i := range tenants {
		o.LockNamespaces = append(o.LockNamespaces, tenantStateOf(&tenants[i]))
	}
	if err := c.readInstances(ctx, &o, tenants, all); err != nil {
		return o, err
	}
	var deployments appsv1.DeploymentList
	switch err := c.client.List(ctx, &deployments, operatorLabels); {
	case apierrors.IsForbidden(err):
		o.Unread = append(o.Unread, "the operator (you may not list Deployments of all namespaces)")
	case err != nil:
		return o, c.explain("list the Deployments of the operator", err)
	default:
		for i := range deployments.Items {
			o.Operators = append(o.Operators, operatorStateOf(&deployments.Items[i]))
		}
	}
	return o, nil
}

// readInstances reads the RedisInstances of the namespace, and those elsewhere that its LockNamespaces are bound to.
func (c *cluster) readInstances(ctx context.Context, o *overview, tenants []v1alpha1.LockNamespace, all bool) error {
	var list v1alpha1.RedisInstanceList
	where, in := c.where(all)
	switch err := c.client.List(ctx, &list, in); {
	case apierrors.IsForbidden(err):
		o.Unread = append(o.Unread, "RedisInstances of "+where)
	case err != nil:
		return c.explain("list the RedisInstances of "+where, err)
	}
	for _, key := range elsewhere(list.Items, tenants) {
		var instance v1alpha1.RedisInstance
		switch err := c.client.Get(ctx, key, &instance); {
		case apierrors.IsForbidden(err):
			o.Unread = append(o.Unread, "RedisInstance "+key.String())
		case apierrors.IsNotFound(err):
			o.Unread = append(o.Unread, "RedisInstance "+key.String()+" (it does not exist any more)")
		case err != nil:
			return c.explain("read RedisInstance "+key.String(), err)
		default:
			list.Items = append(list.Items, instance)
		}
	}
	for i := range list.Items {
		o.RedisInstances = append(o.RedisInstances, instanceStateOf(&list.Items[i]))
	}
	slices.SortFunc(o.RedisInstances, func(x, y instanceState) int {
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
	return nil
}

// elsewhere are the RedisInstances that LockNamespaces are bound to and that are not among those read, in order.
func elsewhere(read []v1alpha1.RedisInstance, tenants []v1alpha1.LockNamespace) []client.ObjectKey {
	seen := map[client.ObjectKey]bool{}
	for i := range read {
		seen[client.ObjectKeyFromObject(&read[i])] = true
	}
	var keys []client.ObjectKey
	for i := range tenants {
		if ref := tenants[i].Status.InstanceRef; ref != nil {
			if key := (client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}); !seen[key] {
				seen[key] = true
				keys = append(keys, key)
			}
		}
	}
	slices.SortFunc(keys, func(x, y client.ObjectKey) int { return cmp.Compare(x.String(), y.String()) })
	return keys
}

func operatorStateOf(d *appsv1.Deployment) operatorState {
	state := operatorState{Namespace: d.Namespace, Name: d.Name, Ready: d.Status.ReadyReplicas, Wanted: 1}
	if d.Spec.Replicas != nil {
		state.Wanted = *d.Spec.Replicas
	}
	if containers := d.Spec.Template.Spec.Containers; len(containers) > 0 {
		state.Image = containers[0].Image
	}
	return state
}

func tenantStateOf(lns *v1alpha1.LockNamespace) tenantState {
	state := tenantState{
		Namespace: lns.Namespace, Name: lns.Name, Backend: string(lns.Status.Backend), Prefix: lns.Status.Prefix, Conditions: lns.Status.Conditions,
	}
	if lns.Status.Binding != nil {
		state.Secret = lns.Status.Binding.Name
	}
	if ref := lns.Status.InstanceRef; ref != nil {
		state.Instance = ref.Namespace + "/" + ref.Name
	}
	var words string
	if state.Ready, words = readiness(lns.Status.Conditions, lns.Generation); words != "" {
		state.Says = append(state.Says, words)
	}
	for _, condition := range lns.Status.Conditions {
		// It is true, and a reader should know.
		if condition.Type == v1alpha1.ConditionProgrammed && condition.Reason == v1alpha1.ReasonNotEnforced {
			state.Says = append(state.Says, oneLine(condition.Message))
		}
	}
	return state
}

func instanceStateOf(instance *v1alpha1.RedisInstance) instanceState {
	state := instanceState{
		Namespace: instance.Namespace, Name: instance.Name, Mode: string(instance.Spec.Mode), Epoch: instance.Status.Epoch,
		LockNamespaces: instance.Status.LockNamespaces, Conditions: instance.Status.Conditions,
	}
	if server := instance.Status.Server; server != nil {
		state.Server = strings.TrimSpace(server.Engine + " " + server.Version)
	}
	if endpoint := instance.Status.Endpoint; endpoint != nil {
		state.Endpoint = endpoint.Host + ":" + strconv.Itoa(int(endpoint.Port))
	}
	var words string
	if state.Ready, words = readiness(instance.Status.Conditions, instance.Generation); words != "" {
		state.Says = append(state.Says, words)
	}
	for _, condition := range instance.Status.Conditions {
		if says := remark(condition); says != "" && !slices.Contains(state.Says, says) {
			state.Says = append(state.Says, says)
		}
	}
	return state
}

// remark is what a condition of a RedisInstance beside Ready tells that a person should know, "" when all is as it should be.
func remark(condition metav1.Condition) string {
	says := fmt.Sprintf("%s: %s", condition.Reason, oneLine(condition.Message))
	switch condition.Type {
	case v1alpha1.ConditionAvailable, v1alpha1.ConditionLockSafe, v1alpha1.ConditionACLProgrammed:
		if condition.Status != metav1.ConditionTrue || condition.Reason == v1alpha1.ReasonNotEnforced {
			return says
		}
	case v1alpha1.ConditionTLSReady:
		if condition.Status != metav1.ConditionTrue || condition.Reason == v1alpha1.ReasonCertificateExpiresSoon {
			return says
		}
	case v1alpha1.ConditionProgressing:
		if condition.Status == metav1.ConditionTrue || condition.Reason == v1alpha1.ReasonResizeRefused {
			return says
		}
	}
	return ""
}

func readyWord(ready bool) string {
	if ready {
		return "yes"
	}
	return "no"
}

// renderOverview is what status prints for people.
func renderOverview(o overview, where string, wide bool) string {
	var b strings.Builder
	for _, operator := range o.Operators {
		fmt.Fprintf(&b, "Operator %s/%s: %d of %d pods ready", operator.Namespace, operator.Name, operator.Ready, operator.Wanted)
		if wide && operator.Image != "" {
			fmt.Fprintf(&b, ", image %s", operator.Image)
		}
		b.WriteString(".\n")
	}
	unread := strings.Join(o.Unread, "; ")
	if len(o.Operators) == 0 && !strings.Contains(unread, "the operator") {
		b.WriteString("No operator runs: locks that exist go on, and nothing is set up or repaired. Install it with Helm.\n")
	}
	b.WriteString("\n")
	b.WriteString(renderInstances(o.RedisInstances, where, wide))
	b.WriteString("\n")
	b.WriteString(renderTenants(o.LockNamespaces, where, wide))
	if unread != "" {
		fmt.Fprintf(&b, "\nNot shown, since it could not be read: %s.\n", unread)
	}
	return b.String()
}

func renderInstances(instances []instanceState, where string, wide bool) string {
	if len(instances) == 0 {
		return fmt.Sprintf("No RedisInstance in %s.\n", where)
	}
	header := []string{"REDISINSTANCE", "MODE", "SERVER", "READY", "EPOCH", "LOCKNAMESPACES"}
	if wide {
		header = append(header, "ENDPOINT")
	}
	var rows [][]string
	var says []string
	for _, i := range instances {
		name := i.Namespace + "/" + i.Name
		row := []string{name, i.Mode, orDash(i.Server), readyWord(i.Ready), strconv.FormatInt(i.Epoch, 10), strconv.Itoa(int(i.LockNamespaces))}
		if wide {
			row = append(row, orDash(i.Endpoint))
		}
		rows = append(rows, row)
		says = append(says, remarks(name, i.Says)...)
	}
	return table(header, rows) + strings.Join(says, "")
}

func renderTenants(tenants []tenantState, where string, wide bool) string {
	if len(tenants) == 0 {
		return fmt.Sprintf("No LockNamespace in %s.\n", where)
	}
	header := []string{"LOCKNAMESPACE", "BACKEND", "REDISINSTANCE", "READY"}
	if wide {
		header = append(header, "SECRET", "PREFIX")
	}
	var rows [][]string
	var says []string
	for _, t := range tenants {
		name := t.Namespace + "/" + t.Name
		row := []string{name, orDash(t.Backend), orDash(t.Instance), readyWord(t.Ready)}
		if wide {
			row = append(row, orDash(t.Secret), orDash(t.Prefix))
		}
		rows = append(rows, row)
		says = append(says, remarks(name, t.Says)...)
	}
	return table(header, rows) + strings.Join(says, "")
}

func remarks(name string, says []string) []string {
	lines := make([]string, len(says))
	for i, text := range says {
		lines[i] = "  " + name + ": " + text + "\n"
	}
	return lines
}
