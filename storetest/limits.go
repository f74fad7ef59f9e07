package storetest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/holdfast-go/session"
)

var limitRules = []rule{{
	"Limits/LargeMedia",
	"A message with a picture of 5 MB is kept, byte for byte, among others.",
	[]Feature{large}, limitsLargeMedia,
}, {
	"Limits/MessageOf16MiB",
	"A message of 16 MiB is kept.",
	[]Feature{large}, limitsMessageOf16MiB,
}, {
	"Limits/ManyMessages",
	"100,000 messages in one session are kept; their end can be read, and they can be added to.",
	[]Feature{Log, large}, limitsManyMessages,
}, {
	"Limits/ManyAppends",
	"A history of a thousand appends reads as one.",
	[]Feature{Log, large}, limitsManyAppends,
}, {
	"Limits/AreSaidBeforehand",
	"What a store can't hold is ErrTooLarge before anything is written.",
	[]Feature{Log, large}, limitsAreSaidBeforehand,
}}

// noise returns n bytes that don't compress.
func noise(n int) []byte {
	random := rand.New(rand.NewPCG(3, uint64(n)))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

func limitsLargeMedia(tb testing.TB, s *subject) {
	data := noise(5 << 20)
	media := session.NewMessage(session.RoleUser, session.Text("what is this?"),
		&session.MediaBlock{Type: session.MediaImage, MIMEType: "image/png", Name: "big.png", Data: data})
	s.save(tb, id, "before")
	must(tb, s.store.Save(s.ctx, id, []session.Message{session.UserText("before"), media, session.UserText("after")}), "Save with 5 MB of media")
	got := s.peer(tb).load(tb, id)
	want(tb, len(got), 3, "messages")
	for _, b := range got[min(1, len(got)):min(2, len(got))] {
		for _, block := range b.Content {
			if m, ok := block.(*session.MediaBlock); ok && !bytes.Equal(m.Data, data) {
				tb.Errorf("media of %d bytes came back as %d other ones", len(data), len(m.Data))
			}
		}
		want(tb, len(b.Content), 2, "blocks of the message with media")
	}
}

func limitsMessageOf16MiB(tb testing.TB, s *subject) {
	// The JSON form is 16 MiB.
	frame := len(render(session.UserText("")))
	text := strings.Repeat("0123456789abcde\u00e9", 1<<20)[:16<<20-frame]
	text = strings.ToValidUTF8(text, "")
	must(tb, s.store.Save(s.ctx, id, userTexts("before", text)), "Save of a message of 16 MiB")
	got := textsOf(s.peer(tb).load(tb, id))
	if len(got) != 2 || got[0] != "before" || got[1] != text {
		tb.Errorf("Load after Save of a message of 16 MiB = %s, want it as it was", brief(got))
	}
	if s.log == nil || !s.opts.has(Log) {
		return
	}
	s.append(tb, id, "after")
	wantTexts(tb, s.read(tb, id, &session.ReadOptions{Last: 1}).Messages, []string{"after"}, "Read of what follows it")
}

func limitsManyMessages(tb testing.TB, s *subject) {
	const many = 100_000
	texts := numbered("m", many)
	s.save(tb, id, texts...)
	p := s.peer(tb)
	snap := p.read(tb, id, &session.ReadOptions{Last: 3})
	wantTexts(tb, snap.Messages, texts[many-3:], "Read of the last 3 of 100,000")
	want(tb, [2]int{snap.First, snap.Total}, [2]int{many - 2, many}, "First and Total")
	p.append(tb, id, "one more")
	wantTexts(tb, s.read(tb, id, &session.ReadOptions{After: many - 1}).Messages, []string{texts[many-1], "one more"}, "Read behind 99,999")
	wantTexts(tb, s.read(tb, id, &session.ReadOptions{After: many / 2, Limit: 2}).Messages, texts[many/2:many/2+2], "Read in the middle")
	if got := textsOf(s.load(tb, id)); len(got) != many+1 || got[many-1] != texts[many-1] || got[12345] != texts[12345] {
		tb.Errorf("Load: %d messages, want the %d that were written", len(got), many+1)
	}
	_, err := s.log.Truncate(s.ctx, id, 2, nil)
	must(tb, err, "Truncate of 100,001 messages")
	wantTexts(tb, p.load(tb, id), texts[:2], "Load after Truncate")
}

func limitsManyAppends(tb testing.TB, s *subject) {
	const many = 1000
	peers := s.peers(tb, 2)
	for n := range many {
		peers[n/100%2].append(tb, id, fmt.Sprint("m", n+1))
	}
	texts := numbered("m", many)
	wantTexts(tb, s.load(tb, id), texts, "Load after a thousand Appends")
	wantTexts(tb, peers[1].read(tb, id, &session.ReadOptions{After: 400, Last: 300}).Messages, texts[700:], "Read of the last 300")
	s.save(tb, id, append(texts, "by Save")...)
	wantTexts(tb, peers[1].read(tb, id, &session.ReadOptions{Last: 2}).Messages, []string{texts[many-1], "by Save"}, "Read after Save")
}

func limitsAreSaidBeforehand(tb testing.TB, s *subject) {
	s.append(tb, id, "before")
	before := s.state(tb, id)
	// A store may well hold this batch of 64 MiB. If it doesn't, it must say so.
	text := strings.Repeat("x", 16<<20-100)
	_, err := s.log.Append(s.ctx, id, userTexts("first", text, text, text, text), nil)
	if err == nil {
		want(tb, s.read(tb, id, &session.ReadOptions{Limit: 1}).Total, 6, "messages after Append of 64 MiB")
		return
	}
	wantErr(tb, err, is(session.ErrTooLarge), "Append of 64 MiB")
	want(tb, s.state(tb, id), before, "the session after an Append that was too large")
}
