// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"math"
	"slices"
	"testing"
)

func TestQuantile(t *testing.T) {
	t.Parallel()
	values := []float64{4, 1, 3, 2, 5}
	for q, want := range map[float64]float64{0: 1, 0.25: 2, 0.5: 3, 0.9: 4.6, 1: 5, 2: 5, -1: 1} {
		if got := Quantile(values, q); math.Abs(got-want) > 1e-9 {
			t.Errorf("Quantile(%v) = %v, want %v", q, got, want)
		}
	}
	if !slices.Equal(values, []float64{4, 1, 3, 2, 5}) {
		t.Errorf("the values were put in another order: %v", values)
	}
	if got := Median([]float64{1, 2}); got != 1.5 {
		t.Errorf("median of two values is %v, want what lies between them", got)
	}
	if !math.IsNaN(Quantile(nil, 0.5)) {
		t.Error("there is no quantile without values")
	}
	if got := Mean(values); got != 3 {
		t.Errorf("mean is %v, want 3", got)
	}
}

func TestRatiosAreOfTheSameRound(t *testing.T) {
	t.Parallel()
	// The second round was twice as slow for both, the fourth has no divisor.
	got := Ratios([]float64{2, 4, 2, 7, 9}, []float64{1, 2, 1, 0})
	if !slices.Equal(got, []float64{2, 2, 2}) {
		t.Errorf("ratios are %v, want 2 three times", got)
	}
	if s := Summarize(got); s != (Spread{2, 2, 2}) {
		t.Errorf("spread is %+v, want 2 throughout", s)
	}
}
