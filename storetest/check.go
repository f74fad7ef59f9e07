package storetest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-go/session"
)

// must ends the rule if a call failed that had no reason to.
func must(tb testing.TB, err error, call string, args ...any) {
	tb.Helper()
	if err != nil {
		tb.Fatalf("%s: %v", fmt.Sprintf(call, args...), err)
	}
}

// wantErr reports an error that is not each of wants.
func wantErr(tb testing.TB, err error, wants []error, call string, args ...any) {
	tb.Helper()
	if e := checkErr(err, wants, call, args...); e != nil {
		tb.Error(e)
	}
}

// checkErr is wantErr for goroutines.
func checkErr(err error, wants []error, call string, args ...any) error {
	for _, want := range wants {
		if !errors.Is(err, want) {
			return fmt.Errorf("%s: error = %v, want one that is %q", fmt.Sprintf(call, args...), err, want)
		}
	}
	return nil
}

// is names the errors that wantErr asks for.
func is(wants ...error) []error { return wants }

// want reports a difference between got and want.
func want[T any](tb testing.TB, got, want T, what string, args ...any) {
	tb.Helper()
	if diff := cmp.Diff(want, got, cmp.Comparer(time.Time.Equal)); diff != "" {
		tb.Errorf("%s: got %s, want %s", fmt.Sprintf(what, args...), brief(got), brief(want))
		if len(fmt.Sprint(got))+len(fmt.Sprint(want)) > 200 {
			tb.Logf("(-want +got)\n%s", cut(diff, 4000))
		}
	}
}

// wantTexts reports a history whose messages don't have these texts.
func wantTexts(tb testing.TB, got []session.Message, wants []string, what string, args ...any) {
	tb.Helper()
	want(tb, textsOf(got), append([]string{}, wants...), what, args...)
}

// wantHistory reports a history that is not wants to the last detail: unknown
// fields, nil and empty, and the types in Metadata included.
func wantHistory(tb testing.TB, got, wants []session.Message, what string, args ...any) {
	tb.Helper()
	if diff := diffHistories(got, wants); diff != "" {
		tb.Errorf("%s: %s", fmt.Sprintf(what, args...), diff)
	}
}

// diffHistories describes the first difference, or returns "".
func diffHistories(got, wants []session.Message) string {
	if got == nil {
		return "got nil, want a slice that is not nil"
	}
	for i := range min(len(got), len(wants)) {
		if reflect.DeepEqual(got[i], wants[i]) {
			continue
		}
		g, w := render(got[i]), render(wants[i])
		if g == w {
			g, w = fmt.Sprintf("%s %#v", g, got[i]), fmt.Sprintf("%s %#v", w, wants[i])
		}
		return fmt.Sprintf("message %d of %d differs:\ngot  %s\nwant %s", i+1, len(wants), cut(g, 2000), cut(w, 2000))
	}
	if len(got) != len(wants) {
		return fmt.Sprintf("got %d messages, want %d", len(got), len(wants))
	}
	return ""
}

// render shows a message in its JSON form.
func render(m session.Message) string {
	line, err := session.AppendMessage(nil, m)
	if err != nil {
		return fmt.Sprintf("%+v (%v)", m, err)
	}
	return string(line)
}

func brief(v any) string { return cut(fmt.Sprintf("%+v", v), 300) }

func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + fmt.Sprintf("… (%d bytes)", len(s))
}

// together calls f for 0 to n-1 at once, waits for all, and reports their
// errors. It ends the rule if they don't return.
func (s *subject) together(tb testing.TB, n int, f func(i int) error) {
	tb.Helper()
	s.await(tb, fmt.Sprintf("%d calls at once", n), func() error {
		errs := make([]error, n)
		start := make(chan struct{})
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				<-start
				errs[i] = f(i)
			})
		}
		close(start)
		wg.Wait()
		return errors.Join(errs...)
	})
}

// await runs f, which must not use tb, and reports its error. It ends the rule
// if f does not return.
func (s *subject) await(tb testing.TB, what string, f func() error) {
	tb.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	if err, ok := s.receive(tb, done, what); ok && err != nil {
		tb.Errorf("%s: %v", what, err)
	}
}

// receive waits for a value of c, or for c to be closed. It ends the rule if
// neither happens.
func (s *subject) receive(tb testing.TB, c <-chan error, what string) (error, bool) {
	tb.Helper()
	select {
	case err, ok := <-c:
		return err, ok
	case <-time.After(s.opts.patience):
		tb.Fatalf("%s: nothing after %v", what, s.opts.patience)
		return nil, false
	}
}

// awaitDone ends the rule if c is not closed in time.
func (s *subject) awaitDone(tb testing.TB, c <-chan struct{}, what string) {
	tb.Helper()
	select {
	case <-c:
	case <-time.After(s.opts.patience):
		tb.Fatalf("%s: not after %v", what, s.opts.patience)
	}
}

// sameTexts is wantTexts for goroutines.
func sameTexts(got []session.Message, wants []string, what string, args ...any) error {
	if texts := textsOf(got); !slices.Equal(texts, wants) {
		return fmt.Errorf("%s: got %s, want %s", fmt.Sprintf(what, args...), brief(texts), brief(wants))
	}
	return nil
}
