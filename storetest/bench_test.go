package storetest

import (
	"testing"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/memstore"
)

func BenchmarkMemstore(b *testing.B) {
	Benchmark(b, func(testing.TB) session.Store { return memstore.New(nil) })
}

func BenchmarkLiftedDriver(b *testing.B) {
	Benchmark(b, func(testing.TB) session.Store { return session.NewBackend(newMemDriver(), nil) })
}

func TestMessages(t *testing.T) {
	messages := Messages(9)
	canonical(t, messages)
	wantHistory(t, messages, Messages(9), "a second call of Messages")
	wantHistory(t, messages[:4], Messages(4), "the beginning")
	for i, m := range messages {
		size := len(m.Text())
		for _, use := range m.ToolUses() {
			size = len(use.Input)
		}
		for _, result := range m.ToolResults() {
			size = len(result.Text())
		}
		want(t, size, []int{300, 700, 200, 2000}[i%4], "size of message %d", i+1)
	}
}
