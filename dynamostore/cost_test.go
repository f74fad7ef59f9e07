package dynamostore_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/dynamostore"
	"github.com/holdfast-go/session/internal/dynamotest"
	"github.com/holdfast-go/session/storetest"
)

// prose writes text that compresses about as well as people's: words of a
// vocabulary, the frequent ones more often.
type prose struct{ random *rand.Rand }

var vocabulary = strings.Fields(`the of and to in is that it was for on are as with they be at this have from or had by not
	but what all were when we there can an your which their if do will each about how up out them then she many some so
	these would other into has more her two like him see time could no make than first been its who now people my made
	over did down only way find use may water long little very after words called just where most know get through back
	much before go good new write our used me man too any day same right look think also around another came come work
	three word must because does part even place well such here take why things help put years different away again off
	went old number great tell men say small every found still between name should home big give air line set own under
	read last never us left end along while might next sound below saw something thought both few those always looked
	show large often together asked house world going want school important until form food keep children feet land side
	without boy once animals life enough took sometimes four head above kind began almost live page got earth need far
	hand high year mother light parts country father let night following picture being study second eyes soon times
	story boys since white days ever paper hard near sentence better best across during today others however sure means
	knew tried told young miles sun ways thing whole hear example heard several change answer room sea against top turned
	learn point city play toward five using himself usually customer invoice shipping database latency deploy request`)

func (p prose) text(n int) string {
	var b strings.Builder
	for b.Len() < n {
		// A word's frequency falls with its rank, as in any language.
		rank := int(math.Exp(p.random.Float64()*math.Log(float64(len(vocabulary)+1)))) - 1
		b.WriteString(vocabulary[rank])
		b.WriteString([]string{" ", " ", " ", " ", ", ", ". "}[p.random.IntN(6)])
	}
	return b.String()[:n]
}

func (p prose) history(n int) []session.Message {
	messages := make([]session.Message, n)
	for i := range messages {
		messages[i] = p.message()
	}
	return messages
}

func (p prose) message() session.Message { return session.UserText(p.text(1 << 10)) }

// turn is a turn of four messages that take 4,000 bytes as JSON.
func (p prose) turn(t testing.TB) []session.Message {
	result := 2500
	for {
		messages := []session.Message{
			session.UserText(p.text(300)),
			session.NewMessage(session.RoleAssistant, session.Text(p.text(350)), session.ToolUse("call_1", "search", `{"query": "`+p.text(100)+`"}`)),
			session.ToolResults(session.ToolResult("call_1", "search", p.text(result))),
			session.AssistantText(p.text(350)),
		}
		if size := jsonSize(t, messages); size <= 4000 {
			return messages
		} else {
			result -= size - 4000
		}
	}
}

func jsonSize(t testing.TB, messages []session.Message) int {
	t.Helper()
	size := 0
	for _, m := range messages {
		line, err := session.AppendMessage(nil, m)
		check(t, err)
		size += len(line) + 1
	}
	return size
}

// oneItem is what the same costs if a session is one item that is read and
// written whole, eventually consistent, or "-" if DynamoDB does not hold it.
func oneItem(before, after int) (writes, reads string) {
	switch {
	case max(before, after) > 400<<10:
		return "-", "-"
	case after == 0:
		return "0", fmt.Sprint(math.Ceil(float64(before+100)/4096) / 2)
	}
	return fmt.Sprint(math.Ceil(float64(after+100) / 1024)), fmt.Sprint(math.Ceil(float64(before+100)/4096) / 2)
}

// costReport prints a table of costs.
type costReport struct {
	t     *testing.T
	out   strings.Builder
	table *tabwriter.Writer
}

func newCostReport(t *testing.T, server string) *costReport {
	r := &costReport{t: t}
	r.table = tabwriter.NewWriter(&r.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(r.table, "on %s\tWCU\tindex WCU\tRCU\trequests\tone item: WCU\tRCU\t\n", server)
	t.Cleanup(func() {
		check(t, r.table.Flush())
		t.Log("\n" + r.out.String())
	})
	return r
}

// line prints what n operations cost each, and what one would on a session of
// one item that grows from before to after bytes, or is only read if after is
// 0.
func (r *costReport) line(what string, c dynamotest.Cost, n float64, before, after int) {
	w, rd := oneItem(before, after)
	fmt.Fprintf(r.table, "%s\t%.3g\t%.3g\t%.3g\t%.3g\t%s\t%s\t\n", what, c.Writes/n, c.IndexWrites/n, c.Reads/n, float64(c.Requests)/n, w, rd)
}

// atMost reports a cost that is above what is promised.
func (r *costReport) atMost(what string, got, ceiling float64, unit string) {
	r.t.Helper()
	if got > ceiling {
		r.t.Errorf("%s takes %.4g %s, want at most %.4g", what, got, unit, ceiling)
	}
}

// What a Store costs, in capacity units by DynamoDB's published rules.
func TestCosts(t *testing.T) {
	dynamotest.Each(t, func(t *testing.T, s *dynamotest.Server) {
		r := newCostReport(t, s.Name)
		clock := storetest.NewClock()
		opts := dynamostore.Options{Clock: clock.Now}
		uncompressed := opts
		uncompressed.Uncompressed = true
		sizes := []int{1, 100, 10_000}
		if testing.Short() {
			sizes = sizes[:2]
		}
		store, meter := metered(t, s, &opts)
		plain, plainMeter := metered(t, s, &uncompressed)
		for _, n := range sizes {
			costOfAppends(t, r, store, meter, n, 4)
			if n <= 100 {
				costOfAppends(t, r, plain, plainMeter, n, 5)
			}
		}
		costOfReads(t, r, s, &opts)
		costOfLists(t, r, s, &opts, clock)
	})
}

// costOfAppends measures appends, and saves with one new, to a history of n.
func costOfAppends(t *testing.T, r *costReport, store *dynamostore.Store, meter *dynamotest.Meter, n int, turnCeiling float64) {
	t.Helper()
	const times = 10
	p := prose{rand.New(rand.NewPCG(uint64(n), 0))}
	id, how, messageCeiling := fmt.Sprint("append", n), "", 2.0
	if turnCeiling > 4 {
		how, messageCeiling = ", uncompressed", 3
	}
	history := p.history(n)
	check(t, store.Save(t.Context(), id, history))
	size := jsonSize(t, history)
	meter.Take()
	worst := 0.0
	var sum dynamotest.Cost
	for range times {
		m := p.message()
		history = append(history, m)
		_, err := store.Append(t.Context(), id, []session.Message{m}, nil)
		check(t, err)
		c := meter.Take()
		worst = max(worst, c.Writes+c.IndexWrites)
		sum = plus(sum, c)
	}
	what := fmt.Sprintf("append 1 KB to %d%s", n, how)
	r.line(what, sum, times, size, size+1100)
	r.atMost(what, worst, messageCeiling, "WCU")
	r.atMost(what, sum.Reads, 0, "RCU")

	worst, sum = 0, dynamotest.Cost{}
	for range times {
		turn := p.turn(t)
		history = append(history, turn...)
		_, err := store.Append(t.Context(), id, turn, nil)
		check(t, err)
		c := meter.Take()
		worst = max(worst, c.Writes+c.IndexWrites)
		sum = plus(sum, c)
	}
	what = fmt.Sprintf("append a turn of 4 KB to %d%s", n, how)
	r.line(what, sum, times, size, size+4000)
	r.atMost(what, worst, turnCeiling, "WCU")
	r.atMost(what, sum.Reads, 0, "RCU")

	history = append(history, p.message())
	check(t, store.Save(t.Context(), id, history))
	c := meter.Take()
	what = fmt.Sprintf("save with one new of %d%s", n, how)
	r.line(what, c, 1, size, size+1100)
	r.atMost(what, c.Writes+c.IndexWrites, messageCeiling, "WCU")
	r.atMost(what, c.Reads, 0, "RCU")
}

func plus(a, b dynamotest.Cost) dynamotest.Cost {
	a.Writes += b.Writes
	a.IndexWrites += b.IndexWrites
	a.Reads += b.Reads
	a.Requests += b.Requests
	return a
}

// costOfReads measures reads of a history of which each message was appended by
// itself, and of one that was saved at once.
func costOfReads(t *testing.T, r *costReport, s *dynamotest.Server, opts *dynamostore.Options) {
	t.Helper()
	const n = 300
	p := prose{rand.New(rand.NewPCG(1, 2))}
	meter := &dynamotest.Meter{}
	table := s.Table(t, createTable)
	store, err := dynamostore.New(s.Client(meter.Wrap), table, opts)
	check(t, err)
	defer store.Close()
	for how, batch := range map[string]int{"one by one": 1, "at once": n} {
		history := p.history(n)
		size := jsonSize(t, history)
		for part := range slices.Chunk(history, batch) {
			_, err := store.Append(t.Context(), how, part, nil)
			check(t, err)
		}
		var sizes []int // of the items, by sort key
		stored := 0
		for _, i := range itemsOf(t, s.Client(), table, ":"+how) {
			sizes = append(sizes, dynamotest.Size(i))
			stored += dynamotest.Size(i)
		}
		meter.Take()

		_, err := store.Load(t.Context(), how)
		check(t, err)
		c := meter.Take()
		what := fmt.Sprintf("load %d KB, stored %s", stored/1024, how)
		r.line(what, c, 1, size, 0)
		r.atMost(what, c.Reads, 1.1*math.Ceil(float64(stored)/4096), "RCU")

		_, err = store.Read(t.Context(), how, &session.ReadOptions{Last: 20})
		check(t, err)
		c = meter.Take()
		what = fmt.Sprintf("last 20 of %d, stored %s", n, how)
		r.line(what, c, 1, size, 0)
		needed := 0
		for _, size := range sizes[max(0, len(sizes)-1-20):] { // the last one is the head
			needed += size
		}
		if batch > 1 {
			needed = sizes[len(sizes)-2] + sizes[len(sizes)-3] // they are in one batch or in two
		}
		r.atMost(what, c.Reads, math.Ceil(float64(needed)/4096)+2, "RCU")
	}
}

// costOfLists measures lists of sessions that were updated one a minute.
func costOfLists(t *testing.T, r *costReport, s *dynamotest.Server, opts *dynamostore.Options, clock *storetest.Clock) {
	t.Helper()
	const n, messages = 100, 50
	p := prose{rand.New(rand.NewPCG(5, 6))}
	history := p.history(messages)
	size := jsonSize(t, history)
	store, meter := metered(t, s, opts)
	for i := range n {
		clock.Advance(time.Minute)
		check(t, store.Save(t.Context(), fmt.Sprintf("user-%d/%d", i%5, i), history))
	}
	c := meter.Take()
	r.line(fmt.Sprintf("create by a Save of %d", messages), c, n, 0, size)
	for _, list := range []struct {
		what    string
		opts    session.ListOptions
		ceiling float64 // RCU a session
	}{
		{"list all", session.ListOptions{}, 0.6},
		{"list a folder", session.ListOptions{Prefix: "user-3/"}, 0.6},
		{"list the newest 20", session.ListOptions{Limit: 20}, 0.8},
	} {
		listed := float64(len(ids(t, store, &list.opts)))
		c := meter.Take()
		what := fmt.Sprintf("%s, each of %v", list.what, listed)
		r.line(what, c, listed, size, 0)
		r.atMost(what, c.Reads/listed, list.ceiling, "RCU")
	}
}

// The index refresh is all that a write costs more now and then.
func TestCostOfIndexRefresh(t *testing.T) {
	clock := storetest.NewClock()
	store, meter := metered(t, dynamotest.Minidyn(), &dynamostore.Options{Clock: clock.Now})
	add(t, store, "user/s", "x")
	if c := meter.Take(); c.IndexWrites != 2 {
		t.Errorf("a new session takes %v WCU of indexes, want 2", c.IndexWrites)
	}
	total := 0.0
	for range 60 {
		clock.Advance(5 * time.Second)
		add(t, store, "user/s", "x")
		total += meter.Take().IndexWrites
	}
	if total != 5*4 {
		t.Errorf("writes in five minutes take %v WCU of indexes, want 20: five refreshes of two entries", total)
	}
}

// rawWrites makes the two writes that an append can't do without: an item of
// so many bytes, and one that is replaced on a condition.
func rawWrites(b *testing.B, client *dynamodb.Client, table string, payload []byte, n int) {
	b.Helper()
	once := func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} }
	rev := func(n int) types.AttributeValue { return text(fmt.Sprintf("%d-0123456789abcdef", n)) }
	pk := text(":floor")
	_, err := client.PutItem(b.Context(), &dynamodb.PutItemInput{TableName: &table, Item: map[string]types.AttributeValue{
		"pk": pk, "sk": text(fmt.Sprintf("b0123456789/%010d/abcdefghijk", n)), "d": &types.AttributeValueMemberB{Value: payload},
		"n": number("1"), "q": number(fmt.Sprint(n)), "p": text(fmt.Sprintf("b0123456789/%010d/abcdefghijk", n-1)), "z": number("1"),
	}}, once)
	check(b, err)
	in := &dynamodb.PutItemInput{TableName: &table, Item: map[string]types.AttributeValue{
		"pk": pk, "sk": text("h"), "r": rev(n), "b": text("1-0123456789abcdef"), "c": number(fmt.Sprint(n)), "u": number("1770000000000000000"),
		"x": &types.AttributeValueMemberB{Value: make([]byte, 200)}, "q": number(fmt.Sprint(n)), "v": number("1"),
		"l": text(fmt.Sprintf("b0123456789/%010d/abcdefghijk", n)), "ap": text(":1"), "lk": text("2026-02-03T04:05:06.789012345"),
	}}
	if n > 1 {
		in.ConditionExpression = aws.String("r = :r")
		in.ExpressionAttributeValues = map[string]types.AttributeValue{":r": rev(n - 1)}
	}
	_, err = client.PutItem(b.Context(), in, once)
	check(b, err)
}
