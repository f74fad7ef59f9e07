package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/session"
)

var brokenStores = []breakage{
	{"Offer/IsWhatTheOptionsSay", "is a session.Store and nothing more", func(b *broken) {
		b.as = func(b *broken) session.Store { return plain{b} }
	}},
	{"Load/OfUnknownSessionIsEmpty", "returns nil for no messages", func(b *broken) {
		b.onRead(func(m history) history { return append(history(nil), m...) })
	}},
	{"Load/OfUnknownSessionIsEmpty", "takes an unknown session for an error", func(b *broken) {
		load := b.load
		b.load = func(ctx context.Context, id string) (history, error) {
			if _, err := b.whole.Info(ctx, id); err != nil {
				return nil, err
			}
			return load(ctx, id)
		}
	}},
	{"Save/IsLoadedBack", "loads the newest message first", func(b *broken) {
		b.onRead(func(m history) history { slices.Reverse(m); return m })
	}},
	{"Save/ReplacesTheWhole", "leaves the end of a longer history behind a shorter one", func(b *broken) {
		save := b.save
		b.save = func(ctx context.Context, id string, m history) error {
			old, err := b.whole.Load(ctx, id)
			if err != nil {
				return err
			}
			return save(ctx, id, append(slices.Clone(m), old[min(len(m), len(old)):]...))
		}
	}},
	{"Save/OfNothingEmptiesTheHistory", "takes a Save of nothing for a mistake", func(b *broken) {
		save := b.save
		b.save = func(ctx context.Context, id string, m history) error {
			if len(m) == 0 {
				return nil
			}
			return save(ctx, id, m)
		}
	}},
	{"Save/LeavesOtherSessionsAlone", "keeps the ID of the session in one variable for all calls", func(b *broken) {
		load, current := b.load, share[atomic.Value](b)
		b.load = func(ctx context.Context, id string) (history, error) {
			current.Store(id)
			widen()
			return load(ctx, current.Load().(string))
		}
	}},

	{"Append/AddsToTheEnd", "puts new messages first", func(b *broken) {
		b.append = func(ctx context.Context, id string, m history, _ *writeOpts) (session.Version, error) {
			old, _ := b.whole.Load(ctx, id)
			return b.whole.Replace(ctx, id, append(slices.Clone(m), old...), nil)
		}
	}},
	{"Append/CreatesTheSession", "appends only to sessions that were saved", func(b *broken) {
		add := b.append
		b.append = func(ctx context.Context, id string, m history, o *writeOpts) (session.Version, error) {
			if _, err := b.whole.Info(ctx, id); err != nil {
				return "", err
			}
			return add(ctx, id, m, o)
		}
	}},
	{"Append/OfNothingChangesNothing", "creates a session to append nothing to", func(b *broken) {
		add := b.append
		b.append = func(ctx context.Context, id string, m history, o *writeOpts) (session.Version, error) {
			if len(m) == 0 && b.version(ctx, id) == session.Absent {
				return b.whole.Replace(ctx, id, nil, nil)
			}
			return add(ctx, id, m, o)
		}
	}},
	{"Append/KeepsOrderAcrossWriters", "writes a batch message by message", (*broken).oneByOne},
	{"Append/KeepsOrderAcrossWriters", "reads the history and writes it back, and loses what came between", (*broken).readModifyWrite},
	{"Append/NeverReordersWhatWasRead", "orders by a stamp of the writer", func(b *broken) {
		b.beforeWrites(func(string) { widen() })
		b.onRead(func(m history) history {
			widen()
			slices.SortStableFunc(m, func(x, y session.Message) int { return strings.Compare(x.Text(), y.Text()) })
			return m
		})
	}},
	{"Append/CreatesTheSessionOnce", "looks whether there is a session, then creates it", func(b *broken) {
		add := b.append
		b.append = func(ctx context.Context, id string, m history, o *writeOpts) (session.Version, error) {
			if b.version(ctx, id) != session.Absent {
				return add(ctx, id, m, o)
			}
			widen()
			return b.whole.Replace(ctx, id, m, nil)
		}
	}},

	{"Save/LeavesWhatItWasGiven", "takes any longer history for an extension", func(b *broken) {
		save := b.save
		b.save = func(ctx context.Context, id string, m history) error {
			if old, _ := b.whole.Load(ctx, id); len(old) < len(m) {
				_, err := b.whole.Append(ctx, id, m[len(old):], nil)
				return err
			}
			return save(ctx, id, m)
		}
	}},
	{"Replace/LeavesWhatItWasGiven", "compares only the last message to know an extension", func(b *broken) {
		replace := b.replace
		b.replace = func(ctx context.Context, id string, m history, o *writeOpts) (session.Version, error) {
			old, _ := b.whole.Load(ctx, id)
			if n := len(old); n > 0 && n <= len(m) && old[n-1].Equal(m[n-1]) {
				return b.whole.Append(ctx, id, m[n:], o)
			}
			return replace(ctx, id, m, o)
		}
	}},
	{"Save/UndoesAPeersAppend", "appends what is new since its own last Save", func(b *broken) { b.countsSaved(new(noted[int])) }},
	{"Save/AfterTruncate", "still counts messages that a Truncate removed", func(b *broken) { b.countsSaved(share[noted[int]](b)) }},
	{"Save/AfterDelete", "still counts the messages of a deleted session", func(b *broken) { b.countsSaved(share[noted[int]](b)) }},
	{"Save/GrowsWhatWasAppended", "does not count what was appended as stored", func(b *broken) {
		saved := share[noted[int]](b)
		save := b.save
		b.save = func(ctx context.Context, id string, m history) error {
			n, _ := saved.get(id)
			saved.set(id, len(m))
			if len(m) < 8 {
				return save(ctx, id, m)
			}
			_, err := b.whole.Append(ctx, id, m[n:], nil)
			return err
		}
	}},

	{"Truncate/KeepsTheFirst", "keeps the last messages instead of the first", func(b *broken) {
		b.truncate = func(ctx context.Context, id string, keep int, _ *writeOpts) (session.Version, error) {
			old, _ := b.whole.Load(ctx, id)
			return b.whole.Replace(ctx, id, old[len(old)-keep:], nil)
		}
	}},
	{"Truncate/ToTheWholeChangesNothing", "makes a version of a Truncate that removes nothing", func(b *broken) {
		b.truncate = func(ctx context.Context, id string, keep int, _ *writeOpts) (session.Version, error) {
			old, _ := b.whole.Load(ctx, id)
			return b.whole.Replace(ctx, id, old[:min(keep, len(old))], nil)
		}
	}},
	{"Truncate/OfAbsentSessionDoesNothing", "creates the session", func(b *broken) {
		truncate := b.truncate
		b.truncate = func(ctx context.Context, id string, keep int, o *writeOpts) (session.Version, error) {
			if b.version(ctx, id) == session.Absent {
				return b.whole.Replace(ctx, id, nil, nil)
			}
			return truncate(ctx, id, keep, o)
		}
	}},
	{"Truncate/ToNothingKeepsTheSession", "deletes a session that has no messages", func(b *broken) {
		truncate := b.truncate
		b.truncate = func(ctx context.Context, id string, keep int, o *writeOpts) (session.Version, error) {
			if keep == 0 {
				return session.Absent, b.whole.Delete(ctx, id, nil)
			}
			return truncate(ctx, id, keep, o)
		}
	}},
	{"Truncate/RefusesNegative", "takes a negative number for 0", func(b *broken) {
		truncate := b.truncate
		b.truncate = func(ctx context.Context, id string, keep int, o *writeOpts) (session.Version, error) {
			return truncate(ctx, id, max(keep, 0), o)
		}
	}},

	{"Atomicity/ShowsBatchesWhole", "writes a batch message by message", (*broken).oneByOne},
	{"Atomicity/NeverMixesHistories", "removes the old history, then writes the new", func(b *broken) {
		b.save = func(ctx context.Context, id string, m history) error {
			if _, err := b.whole.Truncate(ctx, id, 0, nil); err != nil {
				return err
			}
			widen()
			_, err := b.whole.Append(ctx, id, m, nil)
			return err
		}
	}},
	{"Atomicity/ReadsOneVersion", "reads the version, then the messages", func(b *broken) {
		b.beforeWrites(func(string) { widen() })
		read := b.read
		b.read = func(ctx context.Context, id string, o *readOpts) (session.Snapshot, error) {
			v := b.version(ctx, id)
			widen()
			s, err := read(ctx, id, o)
			s.Version = v
			return s, err
		}
	}},
	{"Atomicity/KeepsAppendsApartFromReplace", "removes the old history, then appends the new", func(b *broken) {
		b.replace = func(ctx context.Context, id string, m history, _ *writeOpts) (session.Version, error) {
			if _, err := b.whole.Truncate(ctx, id, 0, nil); err != nil {
				return "", err
			}
			widen()
			return b.whole.Append(ctx, id, m, nil)
		}
	}},

	{"Order/IsNotByTime", "loads messages of one instant in reverse", func(b *broken) {
		times := share[noted[[]time.Time]](b)
		add := b.append
		b.append = func(ctx context.Context, id string, m history, o *writeOpts) (session.Version, error) {
			times.change(id, func(at []time.Time) []time.Time {
				for range m {
					at = append(at, b.env.Now())
				}
				return at
			})
			return add(ctx, id, m, o)
		}
		load := b.load
		b.load = func(ctx context.Context, id string) (history, error) {
			m, err := load(ctx, id)
			at, _ := times.get(id)
			for from := 0; from < len(m); {
				to := from + 1
				for to < len(m) && at[to].Equal(at[from]) {
					to++
				}
				slices.Reverse(m[from:to])
				from = to
			}
			return m, err
		}
	}},
	{"Order/IgnoresMessageTimes", "orders by the times that messages carry", func(b *broken) {
		b.onRead(func(m history) history {
			slices.SortStableFunc(m, func(x, y session.Message) int { return x.Time.Compare(y.Time) })
			return m
		})
	}},

	{"Limits/LargeMedia", "cuts what does not fit in 400 KB", func(b *broken) {
		b.onWrite(eachBlock(func(b session.Block) bool {
			if m, ok := b.(*session.MediaBlock); ok {
				m.Data = m.Data[:min(len(m.Data), 400_000)]
			}
			return true
		}))
	}},
	{"Limits/MessageOf16MiB", "holds messages of 10 MB at most", func(b *broken) {
		save := b.save
		b.save = func(ctx context.Context, id string, m history) error {
			for _, m := range m {
				if len(m.Text()) > 10_000_000 {
					return fmt.Errorf("%w: line too long", session.ErrTooLarge)
				}
			}
			return save(ctx, id, m)
		}
	}},
	{"Limits/ManyMessages", "unpacks a whole list onto a stack of 8,000", func(b *broken) {
		read := b.read
		b.read = func(ctx context.Context, id string, o *readOpts) (session.Snapshot, error) {
			s, err := read(ctx, id, o)
			if s.Total > 8000 {
				return session.Snapshot{}, fmt.Errorf("too many results to unpack")
			}
			return s, err
		}
	}},
	{"Limits/ManyAppends", "numbers batches with three digits, as text", func(b *broken) {
		add := b.append
		b.append = func(ctx context.Context, id string, m history, o *writeOpts) (session.Version, error) {
			if s, _ := b.whole.Read(ctx, id, &readOpts{Last: 1}); s.Total >= 999 {
				return b.whole.Truncate(ctx, id, 998, nil)
			}
			return add(ctx, id, m, o)
		}
	}},
	{"Limits/AreSaidBeforehand", "fails on a large batch with the database's own error", func(b *broken) {
		add := b.append
		b.append = func(ctx context.Context, id string, m history, o *writeOpts) (session.Version, error) {
			if len(m) == 5 {
				return "", fmt.Errorf("item size has exceeded the maximum allowed size")
			}
			return add(ctx, id, m, o)
		}
	}},
}

var brokenReads = []breakage{
	{"Read/OfAbsentSession", "has an empty version for no session", func(b *broken) {
		read := b.read
		b.read = func(ctx context.Context, id string, o *readOpts) (session.Snapshot, error) {
			s, err := read(ctx, id, o)
			if s.Version == session.Absent {
				s.Version = ""
			}
			return s, err
		}
	}},
	{"Read/ChoosesAfterLimitLast", "counts First from 0", func(b *broken) {
		read := b.read
		b.read = func(ctx context.Context, id string, o *readOpts) (session.Snapshot, error) {
			s, err := read(ctx, id, o)
			s.First = max(0, s.First-1)
			return s, err
		}
	}},
	{"Read/ChoosesAfterLimitLast", "takes the last n and skips After of them", func(b *broken) {
		read := b.read
		b.read = func(ctx context.Context, id string, o *readOpts) (session.Snapshot, error) {
			opts := optionsOf(o)
			if opts.Last == 0 {
				return read(ctx, id, o)
			}
			s, err := read(ctx, id, &readOpts{Last: opts.Last})
			skip := min(opts.After, len(s.Messages))
			s.Messages, s.First = s.Messages[skip:], s.First+skip
			return s, err
		}
	}},
	{"Read/LastIsTheNewest", "returns the oldest n for Last", func(b *broken) {
		read := b.read
		b.read = func(ctx context.Context, id string, o *readOpts) (session.Snapshot, error) {
			opts := optionsOf(o)
			opts.Limit, opts.Last = opts.Last, 0
			return read(ctx, id, &opts)
		}
	}},
	{"Read/WithoutOptionsIsTheWhole", "reads four messages unless told how many", func(b *broken) {
		read := b.read
		b.read = func(ctx context.Context, id string, o *readOpts) (session.Snapshot, error) {
			if o == nil {
				o = &readOpts{Last: 4}
			}
			return read(ctx, id, o)
		}
	}},
	{"Read/RefusesBadOptions", "takes negative numbers for none", func(b *broken) {
		read := b.read
		b.read = func(ctx context.Context, id string, o *readOpts) (session.Snapshot, error) {
			opts := optionsOf(o)
			opts.After = max(opts.After, 0)
			return read(ctx, id, &opts)
		}
	}},
	{"Read/SeesEveryWrite", "each handle reads from a cache of its own", func(b *broken) {
		var cache noted[history]
		load := b.load
		b.load = func(ctx context.Context, id string) (history, error) {
			if m, ok := cache.get(id); ok && m != nil {
				return session.CloneMessages(m), nil
			}
			m, err := load(ctx, id)
			cache.set(id, session.CloneMessages(m))
			return m, err
		}
		b.beforeWrites(func(id string) { cache.set(id, nil) })
	}},
	{"Read/BaseStaysAcrossAppends", "has a new Base with every version", (*broken).movesBase},
	{"Read/BaseMovesWithOtherChanges", "keeps the first Base for ever", func(b *broken) {
		bases := share[noted[session.Version]](b)
		read := b.read
		b.read = func(ctx context.Context, id string, o *readOpts) (session.Snapshot, error) {
			s, err := read(ctx, id, o)
			if s.Base != session.Absent {
				s.Base = bases.change(id, func(v session.Version) session.Version { return orDefault(v, s.Base) })
			}
			return s, err
		}
	}},
	{"Read/PagesOfOneBaseFitTogether", "begins a page with the last message of the one before", func(b *broken) {
		read := b.read
		b.read = func(ctx context.Context, id string, o *readOpts) (session.Snapshot, error) {
			opts := optionsOf(o)
			opts.After = max(0, opts.After-1)
			return read(ctx, id, &opts)
		}
	}},
	{"Read/IsNotStarvedByAppends", "reads again if the session was written meanwhile", (*broken).readsUntilQuiet},
	{"Read/IsNotStarvedBySaves", "reads again if the session was written meanwhile", (*broken).readsUntilQuiet},
}

func (b *broken) movesBase() {
	read := b.read
	b.read = func(ctx context.Context, id string, o *readOpts) (session.Snapshot, error) {
		s, err := read(ctx, id, o)
		s.Base = s.Version
		return s, err
	}
}

func (b *broken) readsUntilQuiet() {
	read := b.read
	b.read = func(ctx context.Context, id string, o *readOpts) (session.Snapshot, error) {
		for {
			s, err := read(ctx, id, o)
			time.Sleep(100 * time.Millisecond)
			if err != nil || b.version(ctx, id) == s.Version {
				return s, err
			}
		}
	}
}
