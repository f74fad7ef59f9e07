package session

import (
	"strings"
	"testing"

	"github.com/holdfast-go/session/internal/ratio"
)

// longHistory returns n messages in turns of four, with some 250 bytes of text
// in each.
func longHistory(n int) []Message {
	messages := policyTurns(n/4, 1)
	for i := range messages {
		switch b := messages[i].Content[0].(type) {
		case *TextBlock:
			b.Text += strings.Repeat(" and so on", 24)
		case *ToolResultBlock:
			b.Content = append(b.Content, Text(strings.Repeat(" and so on", 24)))
		}
	}
	return messages
}

func BenchmarkPolicyWindow(b *testing.B) {
	window, err := NewSlidingWindowManager(SlidingWindowOptions{WindowSize: 20})
	if err != nil {
		b.Fatal(err)
	}
	for _, test := range []struct {
		name     string
		messages []Message
	}{
		{"messages=100", longHistory(100)},
		{"messages=10000", longHistory(10_000)},
		{"messages=10000/preamble", append([]Message{SystemText("be brief")}, longHistory(10_000)...)},
		{"messages=10000/metadata", withUsage(longHistory(10_000))},
	} {
		b.Run(test.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := window.Select(b.Context(), test.messages); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// withUsage gives each assistant message the metadata of a usual provider.
func withUsage(messages []Message) []Message {
	for i := range messages {
		if messages[i].Role == RoleAssistant {
			messages[i].Metadata = map[string]any{"model": "m", "usage": map[string]any{"input": int64(1)}, "stop": "end"}
		}
	}
	return messages
}

func BenchmarkPolicyBudget(b *testing.B) {
	for _, test := range []struct {
		name     string
		messages []Message
		tokens   int
	}{
		{"messages=1000", longHistory(1000), 20_000},
		{"messages=10000", longHistory(10_000), 20_000},
		{"messages=10000/all-fit", longHistory(10_000), 40_000_000},
		{"messages=10000/metadata", withUsage(longHistory(10_000)), 20_000},
	} {
		b.Run(test.name, func(b *testing.B) {
			budget, err := NewTokenBudgetManager(TokenBudgetOptions{MaxTokens: test.tokens, Counter: EstimateTokens})
			if err != nil {
				b.Fatal(err)
			}
			ratio.Report(b, "x-counter", func() {
				EstimateTokens(test.messages)
			}, func() {
				if _, err := budget.Select(b.Context(), test.messages); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}
