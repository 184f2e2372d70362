// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package testcluster

import (
	"bufio"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// arrival is a line of a pod's log, or the end of it.
type arrival struct {
	pod   string
	line  []byte
	at    time.Time
	ended bool
}

// follower follows the logs of all pods of a Deployment, also of those that come later, from their first line.
type follower struct {
	kube      *Kube
	namespace string
	selector  string
	arrivals  chan arrival
	// streams ends the goroutines.
	streams sync.WaitGroup
}

// follow starts following; the channel is closed after ctx has ended.
func follow(ctx context.Context, kube *Kube, namespace, selector string) *follower {
	f := &follower{kube: kube, namespace: namespace, selector: selector, arrivals: make(chan arrival, 256)}
	go func() {
		defer close(f.arrivals)
		f.discover(ctx)
		f.streams.Wait()
	}()
	return f
}

// discover starts a stream for every pod that has started.
func (f *follower) discover(ctx context.Context) {
	var known []string
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		pods, err := f.kube.Clientset.CoreV1().Pods(f.namespace).List(ctx, metav1.ListOptions{LabelSelector: f.selector})
		if err == nil {
			for _, pod := range pods.Items {
				if started(&pod) && !slices.Contains(known, pod.Name) {
					known = append(known, pod.Name)
					f.streams.Go(func() { f.stream(ctx, pod.Name) })
				}
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func started(pod *corev1.Pod) bool {
	for _, status := range pod.Status.ContainerStatuses {
		if status.State.Running != nil || status.State.Terminated != nil {
			return true
		}
	}
	return false
}

// stream passes the lines of one pod on. A connection that breaks while the pod lives is made again, and the lines
// that were passed on already are skipped.
func (f *follower) stream(ctx context.Context, pod string) {
	passed := 0
	for ctx.Err() == nil {
		passed += f.readOnce(ctx, pod, passed)
		if ctx.Err() != nil || f.over(ctx, pod) {
			break
		}
	}
	f.send(ctx, arrival{pod: pod, at: time.Now(), ended: true})
}

func (f *follower) readOnce(ctx context.Context, pod string, skip int) int {
	body, err := f.kube.Clientset.CoreV1().Pods(f.namespace).GetLogs(pod, &corev1.PodLogOptions{Follow: true}).Stream(ctx)
	if err != nil {
		return 0
	}
	defer body.Close()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	read := 0
	for lines.Scan() {
		read++
		if read <= skip {
			continue
		}
		f.send(ctx, arrival{pod: pod, line: slices.Clone(lines.Bytes()), at: time.Now()})
	}
	return max(0, read-skip)
}

// over reports whether the pod will log no more. It waits a moment first: the end of a stream comes before the status.
func (f *follower) over(ctx context.Context, pod string) bool {
	timer := time.NewTimer(100 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return true
	}
	object, err := f.kube.Clientset.CoreV1().Pods(f.namespace).Get(ctx, pod, metav1.GetOptions{})
	if err != nil {
		return isNotFound(err)
	}
	return object.Status.Phase == corev1.PodSucceeded || object.Status.Phase == corev1.PodFailed
}

func (f *follower) send(ctx context.Context, a arrival) {
	select {
	case f.arrivals <- a:
	case <-ctx.Done():
	}
}

// restarts names the containers that were started more than once: their logs would be incomplete.
func (f *follower) restarts(ctx context.Context) ([]string, error) {
	pods, err := f.kube.Clientset.CoreV1().Pods(f.namespace).List(ctx, metav1.ListOptions{LabelSelector: f.selector})
	if err != nil {
		return nil, err
	}
	var restarted []string
	for _, pod := range pods.Items {
		for _, status := range pod.Status.ContainerStatuses {
			if status.RestartCount > 0 {
				restarted = append(restarted, fmt.Sprintf("%s (%d times)", pod.Name, status.RestartCount))
			}
		}
	}
	return restarted, nil
}
