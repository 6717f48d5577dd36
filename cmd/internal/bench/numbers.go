package main

import (
	"fmt"
	"slices"
	"time"
)

// median is the middle one; of none it is the zero value.
func median[N int | int64 | float64 | time.Duration](list []N) N {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Clone(list)
	slices.Sort(sorted)
	return sorted[len(sorted)/2]
}

// percentile is the least of the sorted values that so many percent of them do
// not exceed.
func percentile(sorted []time.Duration, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)*percent+99)/100-1]
}

func micros(d time.Duration) string { return fmt.Sprintf("%.0f µs", float64(d)/1e3) }

func millis(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d)/1e6) }

func times(r float64) string { return fmt.Sprintf("%.2f ×", r) }

func megabytes(n int64) string { return fmt.Sprintf("%.0f MB", float64(n)/(1<<20)) }

// perCall divides, and of nothing makes nothing.
func perCall(d time.Duration, n int) time.Duration {
	if n == 0 {
		return 0
	}
	return d / time.Duration(n)
}
