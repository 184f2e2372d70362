// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stats has the statistics of the benchmark. All functions are pure; none changes its arguments.
package stats

import (
	"math"
	"slices"
)

// Quantile is the value below which the share q of the values lies, with linear interpolation between neighbours. It is NaN without values.
func Quantile(values []float64, q float64) float64 {
	if len(values) == 0 || math.IsNaN(q) {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	place := min(max(q, 0), 1) * float64(len(sorted)-1)
	below := int(place)
	if below == len(sorted)-1 {
		return sorted[below]
	}
	share := place - float64(below)
	return sorted[below]*(1-share) + sorted[below+1]*share
}

// Median is the quantile of one half.
func Median(values []float64) float64 { return Quantile(values, 0.5) }

// Mean is the arithmetic mean, NaN without values.
func Mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// Spread is a median with the quartiles around it.
type Spread struct{ Low, Median, High float64 }

// Summarize gives the median and the quartiles.
func Summarize(values []float64) Spread {
	return Spread{Low: Quantile(values, 0.25), Median: Median(values), High: Quantile(values, 0.75)}
}

// Ratios divides what was measured in one round by what the other measured in the same round, so that whatever disturbed a round stands on both
// sides. Rounds that one of them lacks, and those with a divisor of zero, are left out.
func Ratios(dividends, divisors []float64) []float64 {
	var ratios []float64
	for i := range min(len(dividends), len(divisors)) {
		if divisors[i] != 0 && !math.IsNaN(divisors[i]) && !math.IsNaN(dividends[i]) {
			ratios = append(ratios, dividends[i]/divisors[i])
		}
	}
	return ratios
}
