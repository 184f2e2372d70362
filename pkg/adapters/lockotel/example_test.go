// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lockotel_test

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/lockstead/lockstead/pkg/adapters/lockotel"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/memlock"
)

func Example() {
	ctx := context.Background()
	recorded := tracetest.NewSpanRecorder() // an application has an exporter here
	tracers := trace.NewTracerProvider(trace.WithSpanProcessor(recorded))

	observer, err := lockotel.NewObserver(&lockotel.Options{TracerProvider: tracers}) // the meters are the global ones
	if err != nil {
		fmt.Println(err)
		return
	}
	// lockstead.Open takes the same options as Options.Lock.
	client, err := lock.New(memlock.New(nil), "lk:{payments/billing}:", &lock.Options{Observers: []*lock.Observer{observer}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(ctx)
	err = client.Do(ctx, "order:4711", func(ctx context.Context, _ *lock.Handle) error {
		_, span := tracers.Tracer("billing").Start(ctx, "charge")
		defer span.End()
		return nil
	}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	names := map[string]string{}
	for _, span := range recorded.Ended() {
		names[span.SpanContext().SpanID().String()] = span.Name()
	}
	for _, span := range recorded.Ended() {
		fmt.Printf("%s in %q\n", span.Name(), names[span.Parent().SpanID().String()])
	}
	// Output:
	// lock.acquire in "lock.do"
	// charge in "lock.do"
	// lock.release in "lock.do"
	// lock.do in ""
}
