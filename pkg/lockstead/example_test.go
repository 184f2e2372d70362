// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lockstead_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/memlock"
	"github.com/lockstead/lockstead/pkg/lockstead"
)

// In a pod that mounts the binding of its LockNamespace the options are nil.
func ExampleOpen() {
	ctx := context.Background()
	client, err := lockstead.Open(ctx, exampleOptions())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(ctx)

	h, err := client.TryAcquire(ctx, lock.Key("order", "17"), 30*time.Second, 5*time.Second)
	switch {
	case errors.Is(err, lock.ErrHeld):
		fmt.Println("another replica is at it")
		return
	case err != nil:
		fmt.Println(err)
		return
	}
	defer h.Release(ctx)

	fmt.Println("working on", h.Key(), "while valid:", h.Valid())
	// Output: working on order:17 while valid: true
}

// A binding that is not there is an error that says what to mount, never a lock in the memory of one process.
func ExampleOpen_notMounted() {
	_, err := lockstead.Open(context.Background(), &lockstead.Options{BindingDir: "/no/such/folder"})
	fmt.Println(err)
	// Output:
	// lock binding in /no/such/folder: stat /no/such/folder: no such file or directory
	// Mount the binding Secret of the LockNamespace (kubectl get lns shows whether it is Ready):
	//   spec:
	//     containers:
	//     - volumeMounts:
	//       - {name: lockstead, mountPath: /no/such/folder, readOnly: true}
	//     volumes:
	//     - name: lockstead
	//       secret: {secretName: <name of the LockNamespace>-lock}
}

// A test of an application, or a tool that runs once, chooses locks in memory explicitly.
func ExampleOpen_driver() {
	ctx := context.Background()
	client, err := lockstead.Open(ctx, &lockstead.Options{Driver: memlock.New(nil), Prefix: "lk:{example}:"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(ctx)

	err = client.Do(ctx, "report", func(ctx context.Context, h *lock.Handle) error {
		fmt.Println("one at a time:", h.Key())
		return nil
	}, nil)
	if err != nil {
		fmt.Println(err)
	}
	// Output: one at a time: report
}

// exampleOptions stands for the mounted binding and the pod's service account.
func exampleOptions() *lockstead.Options {
	dir, err := os.MkdirTemp("", "lockstead-example-")
	if err != nil {
		panic(err)
	}
	exampleFolders = append(exampleFolders, dir)
	entries, err := leaseBinding("default").Encode()
	if err != nil {
		panic(err)
	}
	for name, value := range entries {
		if err := os.WriteFile(filepath.Join(dir, name), value, 0o600); err != nil {
			panic(err)
		}
	}
	return &lockstead.Options{BindingDir: dir, RESTConfig: server.Config(), Logger: slog.New(slog.DiscardHandler)}
}

// exampleFolders are removed when the examples have run.
var exampleFolders []string
