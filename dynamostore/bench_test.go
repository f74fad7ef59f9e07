package dynamostore_test

import (
	"math/rand/v2"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/internal/dynamotest"
	"github.com/holdfast-go/session/internal/ratio"
	"github.com/holdfast-go/session/storetest"
)

// BenchmarkStore is the suite's, on the server that is there.
func BenchmarkStore(b *testing.B) {
	f := &tables{server: dynamotest.Start(b)}
	storetest.Benchmark(b, f.open)
}

// An append of 1 KB against the two writes that it is made of, on the same
// server, of the same bytes. Target: 1.25.
func BenchmarkAppend(b *testing.B) {
	s := dynamotest.Start(b)
	f := &tables{server: s}
	table := s.Table(b, createTable)
	store := f.in(b, table)
	p := prose{rand.New(rand.NewPCG(3, 4))}
	messages := p.history(256)
	var payloads [][]byte
	for _, m := range messages {
		payloads = append(payloads, payloadOf(b, f, m))
	}
	client := s.Client()
	floors, appends := 0, 0
	ratio.Report(b, "x-floor", func() {
		floors++
		rawWrites(b, client, table, payloads[floors%len(payloads)], floors)
	}, func() {
		appends++
		_, err := store.Append(b.Context(), "s", messages[appends%len(messages):][:1], nil)
		check(b, err)
	})
}

// payloadOf returns as many bytes as the store makes of a message.
func payloadOf(b *testing.B, f *tables, m session.Message) []byte {
	b.Helper()
	mini := &tables{server: dynamotest.Minidyn(), opts: f.opts}
	table := mini.server.Table(b, createTable)
	s := mini.in(b, table)
	_, err := s.Append(b.Context(), "s", []session.Message{m}, nil)
	check(b, err)
	return dataOf(b, mini.server.Client(), table)
}

func dataOf(b *testing.B, client *dynamodb.Client, table string) []byte {
	b.Helper()
	for _, i := range itemsOf(b, client, table, ":s") {
		if d, ok := i["d"].(*types.AttributeValueMemberB); ok {
			return d.Value
		}
	}
	b.Fatal("no batch")
	return nil
}
