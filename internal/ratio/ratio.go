// Package ratio measures one piece of code against another in the same run, so
// that a busy or slow machine moves both.
package ratio

import (
	"runtime"
	"slices"
	"testing"
	"time"
)

// minRounds is how often each side runs at least. The median of an odd number
// is a measurement, not an average.
const minRounds = 9

// Report runs floor and ours alternately, as long as b asks for but at least
// nine times, and reports the median time of ours over that of floor as a
// metric of b under the given name. Before each run the heap is collected, and
// a run repeats its function for some 20 milliseconds. It returns the ratio.
func Report(b *testing.B, name string, floor, ours func()) float64 {
	b.Helper()
	floorRuns, oursRuns := repeats(floor), repeats(ours)
	var f, o []time.Duration
	for more := true; more || len(o) < minRounds; more = more && b.Loop() {
		f = append(f, timed(floor, floorRuns))
		o = append(o, timed(ours, oursRuns))
	}
	return report(b, name, f, o)
}

// ReportFresh is Report for code that can't be repeated on what it has left
// behind: each round prepares anew, which is not measured, and runs both once.
func ReportFresh(b *testing.B, name string, prepare func() (floor, ours func())) float64 {
	b.Helper()
	var f, o []time.Duration
	for more := true; more || len(o) < minRounds; more = more && b.Loop() {
		floor, ours := prepare()
		f = append(f, timed(floor, 1))
		o = append(o, timed(ours, 1))
	}
	return report(b, name, f, o)
}

func report(b *testing.B, name string, floor, ours []time.Duration) float64 {
	b.Helper()
	r := float64(median(ours)) / float64(median(floor))
	b.ReportMetric(r, name)
	b.ReportMetric(0, "ns/op") // of no meaning here
	return r
}

// repeats returns how often f has to run to take about 20 milliseconds.
func repeats(f func()) int {
	once := max(min(timed(f, 1), timed(f, 1)), 1)
	return int(max(20*time.Millisecond/once, 1))
}

// timed returns how long one of n runs of f takes.
func timed(f func(), n int) time.Duration {
	runtime.GC()
	start := time.Now()
	for range n {
		f()
	}
	return max(time.Since(start)/time.Duration(n), 1)
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}
