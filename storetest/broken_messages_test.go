package storetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/session"
)

var brokenMessages = []breakage{
	{"Messages/KeepEveryField", "forgets the tool's name in a result", func(b *broken) {
		b.onWrite(eachBlock(func(b session.Block) bool {
			if r, ok := b.(*session.ToolResultBlock); ok {
				r.Name = ""
			}
			return true
		}))
	}},
	{"Messages/KeepEveryField", "drops inline media", func(b *broken) {
		b.onWrite(eachBlock(func(b session.Block) bool { _, media := b.(*session.MediaBlock); return !media }))
	}},
	{"Messages/KeepUnknownMembers", "has columns for the fields it knows", func(b *broken) {
		b.onWrite(eachMessage(func(m *session.Message) {
			*m = session.Message{ID: m.ID, Role: m.Role, Content: m.Content, Time: m.Time, Metadata: m.Metadata}
		}))
	}},
	{"Messages/KeepRawBlocks", "drops blocks of a type it does not know", func(b *broken) {
		b.onWrite(eachBlock(func(b session.Block) bool { _, raw := b.(*session.RawBlock); return !raw }))
	}},
	{"Messages/KeepToolInputByteForByte", "compacts tool input", func(b *broken) {
		b.onWrite(eachInput(func(in []byte) []byte {
			var out bytes.Buffer
			json.Compact(&out, in)
			return out.Bytes()
		}))
	}},
	{"Messages/KeepText", "escapes text for HTML", func(b *broken) { b.onWrite(eachText(html.EscapeString)) }},
	{"Messages/KeepText", "trims text", func(b *broken) { b.onWrite(eachText(strings.TrimSpace)) }},
	{"Messages/KeepTimes", "keeps times to the microsecond", func(b *broken) {
		b.onWrite(eachMessage(func(m *session.Message) { m.Time = m.Time.Truncate(time.Microsecond) }))
	}},
	{"Messages/KeepRolesAndIDs", "takes a message ID for a key", func(b *broken) {
		b.onWrite(func(messages history) (kept history) {
			seen := make(map[string]bool)
			for _, m := range messages {
				if !seen[m.ID] {
					kept = append(kept, m)
				}
				seen[m.ID] = true
			}
			return kept
		})
	}},
	{"Messages/KeepRolesAndIDs", "turns roles it does not know into user", func(b *broken) {
		b.onWrite(eachMessage(func(m *session.Message) {
			if m.Role == "developer" {
				m.Role = session.RoleUser
			}
		}))
	}},
	{"Messages/MakeMetadataCanonical", "returns every number as float64", func(b *broken) {
		b.onRead(eachMessage(func(m *session.Message) {
			for k, v := range m.Metadata {
				if n, ok := v.(int64); ok {
					m.Metadata[k] = float64(n)
				}
			}
		}))
	}},
	{"Messages/TurnEmptyIntoNil", "returns empty slices where nothing was", func(b *broken) {
		b.onRead(eachMessage(func(m *session.Message) {
			if m.Content == nil {
				m.Content = []session.Block{}
			}
		}))
	}},
	{"Messages/HaveTheSameBytesEveryTime", "indents tool input once more with every write", func(b *broken) {
		b.onWrite(eachInput(func(in []byte) []byte { return append([]byte(" "), in...) }))
	}},
	{"Cases/LargeIntegerInInput", "decodes tool input into float64", func(b *broken) {
		b.onWrite(eachInput(func(in []byte) []byte {
			var v any
			json.Unmarshal(in, &v)
			out, _ := json.Marshal(v)
			return out
		}))
	}},
	{"Cases/SourceCodeInResult", "encodes tool input with encoding/json", func(b *broken) {
		b.onWrite(eachInput(func(in []byte) []byte {
			out, _ := json.Marshal(json.RawMessage(in))
			return out
		}))
	}},
	{"Cases/ThinkingWithSignature", "drops the signature of thinking", func(b *broken) {
		b.onWrite(eachBlock(func(b session.Block) bool {
			if t, ok := b.(*session.ThinkingBlock); ok {
				t.Signature = ""
			}
			return true
		}))
	}},
	{"Cases/HalfACharacter", "fails on a history with a replaced character", func(b *broken) {
		load := b.load
		b.load = func(ctx context.Context, id string) (history, error) {
			m, err := load(ctx, id)
			if contains(m, "\ufffd") {
				err = fmt.Errorf("%w: not UTF-8", session.ErrCorrupt)
			}
			return m, err
		}
	}},
	{"Cases/EmptyToolResult", "drops empty text", func(b *broken) {
		b.onWrite(eachBlock(func(b session.Block) bool {
			t, ok := b.(*session.TextBlock)
			return !ok || t.Text != ""
		}))
	}},

	{"BadMessage/IsRefusedBySave", "replaces what is not UTF-8", func(b *broken) {
		save := b.save
		b.save = func(ctx context.Context, id string, m history) error {
			valid := eachText(func(s string) string { return strings.ToValidUTF8(s, "?") })
			return save(ctx, id, valid(m))
		}
	}},
	{"BadMessage/IsRefusedBySave", "shows the message in the error", func(b *broken) {
		save := b.save
		b.save = func(ctx context.Context, id string, m history) error {
			err := save(ctx, id, m)
			if err != nil && len(m) == 1 {
				err = fmt.Errorf("%w: %v", err, m[0])
			}
			return err
		}
	}},
	{"BadMessage/IsRefusedByAppend", "writes a batch until it comes to the bad message", func(b *broken) {
		b.append = func(ctx context.Context, id string, m history, o *writeOpts) (v session.Version, err error) {
			for i := range m {
				if v, err = b.whole.Append(ctx, id, m[i:i+1], nil); err != nil {
					return v, err
				}
			}
			return v, nil
		}
	}},
	{"BadMessage/IsRefusedByReplace", "has removed the old history when it comes to the bad message", func(b *broken) {
		b.replace = func(ctx context.Context, id string, m history, o *writeOpts) (session.Version, error) {
			if _, err := b.whole.Truncate(ctx, id, 0, o); err != nil {
				return "", err
			}
			return b.whole.Append(ctx, id, m, nil)
		}
	}},
}

// keepsGiven returns a note of messages as they were given, not copied, and
// makes Load return copies of them.
func (b *broken) keepsGiven() *noted[history] {
	var given noted[history]
	b.load = func(ctx context.Context, id string) (history, error) {
		m, _ := given.get(id)
		return session.CloneMessages(m), nil
	}
	return &given
}

var brokenOwnership = []breakage{
	{"Ownership/KeepsNothingOfSave", "keeps the slice that Save was given", func(b *broken) {
		given := b.keepsGiven()
		b.save = func(_ context.Context, id string, m history) error { given.set(id, m); return nil }
	}},
	{"Ownership/KeepsNothingOfAppend", "copies the messages that Append was given, but not their blocks", func(b *broken) {
		given := b.keepsGiven()
		b.append = func(_ context.Context, id string, m history, _ *writeOpts) (session.Version, error) {
			given.change(id, func(old history) history { return append(old, m...) })
			return "1", nil
		}
	}},
	{"Ownership/KeepsNothingOfReplace", "copies messages and blocks, but not the bytes in them", func(b *broken) {
		given := b.keepsGiven()
		b.replace = func(_ context.Context, id string, m history, _ *writeOpts) (session.Version, error) {
			m = slices.Clone(m)
			for i := range m {
				m[i].Content = slices.Clone(m[i].Content)
				for j, block := range m[i].Content {
					if media, ok := block.(*session.MediaBlock); ok {
						copied := *media
						m[i].Content[j] = &copied
					} else {
						m[i].Content[j] = session.CloneMessages(m[i : i+1])[0].Content[j]
					}
				}
				m[i].Metadata = session.CloneMessages(m[i : i+1])[0].Metadata
			}
			given.set(id, m)
			return "1", nil
		}
	}},
	{"Ownership/LeavesArgumentsAlone", "writes the time into the messages it is given", func(b *broken) {
		save := b.save
		b.save = func(ctx context.Context, id string, m history) error {
			for i := range m {
				if m[i].Time.IsZero() {
					m[i].Time = b.env.Now()
				}
			}
			return save(ctx, id, m)
		}
	}},
	{"Ownership/GivesAwayWhatItLoads", "returns its cache", func(b *broken) {
		var cache noted[history]
		load := b.load
		b.load = func(ctx context.Context, id string) (history, error) {
			if m, ok := cache.get(id); ok {
				return m, nil
			}
			m, err := load(ctx, id)
			cache.set(id, m)
			return m, err
		}
	}},
	{"Ownership/GivesAwayWhatItReads", "copies messages, but not their metadata", func(b *broken) {
		var cache noted[history]
		load := b.load
		b.load = func(ctx context.Context, id string) (history, error) {
			m, err := load(ctx, id)
			if cached, ok := cache.get(id); ok {
				for i := range m {
					m[i].Metadata = cached[i].Metadata
				}
			}
			return m, err
		}
		read := b.read
		b.read = func(ctx context.Context, id string, o *readOpts) (session.Snapshot, error) {
			s, err := read(ctx, id, o)
			cache.set(id, slices.Clone(s.Messages))
			return s, err
		}
	}},
	{"Ownership/AlsoWhileOthersWrite", "writes back what it loaded, to compact it", func(b *broken) {
		b.beforeWrites(func(string) { widen() })
		load := b.load
		b.load = func(ctx context.Context, id string) (history, error) {
			m, err := load(ctx, id)
			widen()
			return m, errors.Join(err, b.whole.Save(ctx, id, m))
		}
	}},
	{"Ownership/CopiesMeta", "keeps the labels that Update was given", func(b *broken) {
		var labels map[string]string
		update := b.update
		b.update = func(ctx context.Context, id string, change changing) (session.Info, error) {
			return update(ctx, id, func(m *session.Meta) error {
				err := change(m)
				labels = m.Labels
				return err
			})
		}
		info := b.info
		b.info = func(ctx context.Context, id string) (session.Info, error) {
			i, err := info(ctx, id)
			i.Labels = labels
			return i, err
		}
	}},
}
