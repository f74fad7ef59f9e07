package storetest

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/session"
)

var ownershipRules = []rule{{
	"Ownership/KeepsNothingOfSave",
	"What was passed to Save is the caller's to change when the call has returned.",
	nil, func(tb testing.TB, s *subject) {
		keepsNothing(tb, s, func(messages []session.Message) error { return s.store.Save(s.ctx, id, messages) })
	},
}, {
	"Ownership/KeepsNothingOfAppend",
	"What was passed to Append is the caller's to change when the call has returned.",
	[]Feature{Log}, func(tb testing.TB, s *subject) {
		keepsNothing(tb, s, func(messages []session.Message) error {
			_, err := s.log.Append(s.ctx, id, messages, nil)
			return err
		})
	},
}, {
	"Ownership/KeepsNothingOfReplace",
	"What was passed to Replace is the caller's to change when the call has returned.",
	[]Feature{Log}, func(tb testing.TB, s *subject) {
		keepsNothing(tb, s, func(messages []session.Message) error {
			_, err := s.log.Replace(s.ctx, id, messages, nil)
			return err
		})
	},
}, {
	"Ownership/LeavesArgumentsAlone",
	"A write does not change the messages that it is given.",
	nil, ownershipLeavesArgumentsAlone,
}, {
	"Ownership/GivesAwayWhatItLoads",
	"What Load returned is the caller's to change.",
	nil, func(tb testing.TB, s *subject) {
		givesAway(tb, s, func() ([]session.Message, error) { return s.store.Load(s.ctx, id) })
	},
}, {
	"Ownership/GivesAwayWhatItReads",
	"What Read returned is the caller's to change.",
	[]Feature{Log}, func(tb testing.TB, s *subject) {
		givesAway(tb, s, func() ([]session.Message, error) {
			snap, err := s.log.Read(s.ctx, id, nil)
			return snap.Messages, err
		})
	},
}, {
	"Ownership/AlsoWhileOthersWrite",
	"A loaded history may be changed while the store goes on writing and reading.",
	[]Feature{Log}, ownershipAlsoWhileOthersWrite,
}, {
	"Ownership/CopiesMeta",
	"Labels that Update was given, and those that Info, List and Update return, are the caller's to change.",
	[]Feature{Log, Catalog}, ownershipCopiesMeta,
}}

func keepsNothing(tb testing.TB, s *subject, write func([]session.Message) error) {
	tb.Helper()
	given := conversation()
	spare := append(given, session.UserText("in the spare capacity"))
	must(tb, write(spare[:len(given)]), "write")
	scramble(spare)
	wantHistory(tb, s.load(tb, id), conversation(), "Load after the written messages were changed")
}

func ownershipLeavesArgumentsAlone(tb testing.TB, s *subject) {
	for i := range 2 {
		given := conversation()
		must(tb, s.store.Save(s.ctx, id, given), "Save")
		wantHistory(tb, given, conversation(), "messages after Save %d", i+1)
	}
	if s.log == nil || !s.opts.has(Log) {
		return
	}
	given := conversation()
	_, err := s.log.Append(s.ctx, id, given, &session.WriteOptions{Key: "k"})
	must(tb, err, "Append")
	wantHistory(tb, given, conversation(), "messages after Append")
}

func givesAway(tb testing.TB, s *subject, load func() ([]session.Message, error)) {
	tb.Helper()
	must(tb, s.store.Save(s.ctx, id, conversation()), "Save")
	for range 2 {
		got, err := load()
		must(tb, err, "load")
		scramble(got[:cap(got)])
		scramble(append(got, session.UserText("in the spare capacity")))
	}
	wantHistory(tb, s.load(tb, id), conversation(), "Load after loaded messages were changed")
}

func ownershipAlsoWhileOthersWrite(tb testing.TB, s *subject) {
	must(tb, s.store.Save(s.ctx, id, conversation()), "Save")
	var writers atomic.Int32
	writers.Store(2)
	s.together(tb, 4, func(i int) error {
		if i < 2 {
			defer writers.Add(-1)
			for range 20 {
				batch := conversation()
				if _, err := s.log.Append(s.ctx, id, batch, nil); err != nil {
					return fmt.Errorf("Append: %w", err)
				}
				scramble(batch)
			}
			return nil
		}
		for writers.Load() > 0 {
			got, err := s.store.Load(s.ctx, id)
			if err != nil {
				return fmt.Errorf("Load: %w", err)
			}
			scramble(got)
		}
		return nil
	})
	var wants []session.Message
	for range 41 {
		wants = append(wants, conversation()...)
	}
	wantHistory(tb, s.load(tb, id), wants, "Load after loaded and appended messages were changed")
}

func ownershipCopiesMeta(tb testing.TB, s *subject) {
	s.append(tb, id, "a")
	wants := map[string]string{"a": "1", "b": "2"}
	labels := map[string]string{"a": "1", "b": "2"}
	info := s.setMeta(tb, id, session.Meta{Labels: labels})
	labels["a"] = "changed after Update"
	want(tb, info.Labels, wants, "labels that Update returned")
	clear(info.Labels)
	info = s.info(tb, id)
	want(tb, info.Labels, wants, "labels of Info")
	info.Labels["b"] = "changed after Info"
	for _, listed := range s.awaitList(tb, nil, id) {
		clear(listed.Labels)
	}
	want(tb, s.info(tb, id).Labels, wants, "labels of Info after all copies were changed")

	var kept *session.Meta
	failed := fmt.Errorf("refused by the caller")
	_, err := s.catalog.Update(s.ctx, id, func(m *session.Meta) error {
		kept = m
		m.Labels["a"] = "changed, then refused"
		return failed
	})
	wantErr(tb, err, is(failed), "Update whose change fails")
	kept.Labels["b"] = "changed after a refused Update"
	want(tb, s.info(tb, id).Labels, wants, "labels of Info after a refused Update")
}

// scramble changes all that can be reached from messages, in place.
func scramble(messages []session.Message) {
	for i := range messages {
		m := &messages[i]
		scrambleBlocks(m.Content)
		scrambleMap(m.Metadata)
		*m = session.Message{ID: "scrambled", Role: "scrambled"}
	}
}

func scrambleBlocks(blocks []session.Block) {
	for i, b := range blocks {
		switch b := b.(type) {
		case *session.TextBlock:
			*b = session.TextBlock{Text: "scrambled"}
		case *session.ThinkingBlock:
			scrambleBytes(b.Redacted)
			*b = session.ThinkingBlock{Signature: "scrambled"}
		case *session.MediaBlock:
			scrambleBytes(b.Data)
			*b = session.MediaBlock{Name: "scrambled"}
		case *session.ToolUseBlock:
			scrambleBytes(b.Input)
			*b = session.ToolUseBlock{Name: "scrambled"}
		case *session.ToolResultBlock:
			scrambleBlocks(b.Content)
			*b = session.ToolResultBlock{Name: "scrambled"}
		case *session.RawBlock:
			scrambleBytes(b.Data)
			*b = session.RawBlock{Type: "scrambled"}
		}
		blocks[i] = session.Text("scrambled")
	}
}

// scrambleBytes writes beyond the length too, where a neighbour may be.
func scrambleBytes(b []byte) {
	b = b[:cap(b)]
	for i := range b {
		b[i] = '#'
	}
}

func scrambleMap(m map[string]any) {
	for key, value := range m {
		scrambleValue(value)
		m[key] = "scrambled"
	}
	if m != nil {
		m["new"] = "scrambled"
	}
}

func scrambleValue(v any) {
	switch v := v.(type) {
	case map[string]any:
		scrambleMap(v)
	case []any:
		for i := range v {
			scrambleValue(v[i])
			v[i] = "scrambled"
		}
	}
}
