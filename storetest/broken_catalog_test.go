package storetest

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/session"
)

var brokenIDs = []breakage{
	{"IDs/AreAllDifferent", "folds the case of IDs", func(b *broken) { b.onID(strings.ToLower) }},
	{"IDs/AreAllDifferent", "joins the parts of an ID by its separator", func(b *broken) {
		b.onID(strings.NewReplacer("/", ":").Replace)
	}},
	{"IDs/AreAllDifferent", "cleans IDs as paths", func(b *broken) { b.onID(path.Clean) }},
	{"IDs/AreAllDifferent", "cuts IDs to the 255 bytes of a file name", func(b *broken) {
		b.onID(func(id string) string { return strings.ToValidUTF8(id[:min(len(id), 255)], "") })
	}},
	{"IDs/AreListedAsTheyAre", "lists the file names of sessions", func(b *broken) {
		b.onInfos(func(i session.Info) (session.Info, bool) { i.ID = path.Clean(i.ID); return i, true })
	}},
	{"IDs/AreDeletedOneByOne", "deletes what begins with the ID", func(b *broken) {
		b.delete = func(ctx context.Context, id string, _ *writeOpts) error {
			for info := range b.whole.List(ctx, &listOpts{Prefix: id}) {
				b.whole.Delete(ctx, info.ID, nil)
			}
			return nil
		}
	}},
	{"IDs/AreLockedOneByOne", "has a lock file for each ID, whatever its case", func(b *broken) { b.onID(strings.ToLower) }},
	{"IDs/OfOtherKindsAreRefused", "cuts an ID after 512 bytes", func(b *broken) {
		b.onID(func(id string) string { return id[:min(len(id), 512)] })
	}},
	{"IDs/JoinedPartsStayApart", "decodes percent signs in an ID", func(b *broken) {
		b.onID(strings.NewReplacer("%2F", "/", "%25", "%").Replace)
	}},
}

var brokenInfos = []breakage{
	{"Info/OfAbsentSessionIsNotFound", "describes a session that does not exist", func(b *broken) {
		info := b.info
		b.info = func(ctx context.Context, id string) (session.Info, error) {
			i, err := info(ctx, id)
			if errors.Is(err, session.ErrNotFound) {
				return session.Info{ID: id, Version: session.Absent}, nil
			}
			return i, err
		}
	}},
	{"Info/DescribesTheSession", "tells the time in the zone of the server", func(b *broken) {
		b.onInfo(func(i *session.Info) { i.Created = i.Created.In(time.FixedZone("", 3600)) })
	}},
	{"Info/CountsMessages", "counts messages that were removed", func(b *broken) {
		most := share[noted[int]](b)
		b.onInfo(func(i *session.Info) {
			i.Messages = most.change(i.ID, func(n int) int { return max(n, i.Messages) })
		})
	}},
	{"Info/KeepsCreatedAndMeta", "begins a session anew with each Save", func(b *broken) {
		b.save = func(ctx context.Context, id string, m history) error {
			if err := b.whole.Delete(ctx, id, nil); err != nil {
				return err
			}
			return b.whole.Save(ctx, id, m)
		}
	}},
	{"Info/ShowsTheLastWrite", "shows the creation as the last write", func(b *broken) {
		b.onInfo(func(i *session.Info) { i.Updated = i.Created })
	}},
	{"Info/ShowsTheLastWrite", "takes an empty Append for a write", func(b *broken) {
		add := b.append
		b.append = func(ctx context.Context, id string, m history, o *writeOpts) (session.Version, error) {
			v, err := add(ctx, id, m, o)
			if len(m) == 0 && err == nil {
				b.whole.Update(ctx, id, func(*session.Meta) error { return nil })
			}
			return v, err
		}
	}},
	{"Save/OfNothingCreates", "deletes a session that is saved empty", func(b *broken) {
		save := b.save
		b.save = func(ctx context.Context, id string, m history) error {
			if len(m) == 0 {
				return b.whole.Delete(ctx, id, nil)
			}
			return save(ctx, id, m)
		}
	}},
	{"Delete/OfAbsentSessionDoesNothing", "does not find what it shall delete", func(b *broken) {
		b.delete = func(ctx context.Context, id string, o *writeOpts) error {
			if _, err := b.whole.Info(ctx, id); err != nil {
				return err
			}
			return b.whole.Delete(ctx, id, o)
		}
	}},
	{"Delete/RemovesEverything", "leaves the Meta behind", func(b *broken) {
		left := share[noted[session.Meta]](b)
		b.delete = func(ctx context.Context, id string, o *writeOpts) error {
			if i, err := b.whole.Info(ctx, id); err == nil {
				left.set(id, i.Meta)
			}
			return b.whole.Delete(ctx, id, o)
		}
		b.onInfo(func(i *session.Info) {
			if m, ok := left.get(i.ID); ok {
				i.Meta = m
			}
		})
	}},
	{"Delete/RemovesEverything", "brings old messages back when the session is made again", func(b *broken) {
		left := share[noted[history]](b)
		b.delete = func(ctx context.Context, id string, o *writeOpts) error {
			m, _ := b.whole.Load(ctx, id)
			left.set(id, m)
			return b.whole.Delete(ctx, id, o)
		}
		load := b.load
		b.load = func(ctx context.Context, id string) (history, error) {
			m, err := load(ctx, id)
			if old, _ := left.get(id); len(m) > 0 {
				m = append(session.CloneMessages(old), m...)
			}
			return m, err
		}
	}},
	{"Delete/RacesWithAppends", "writes back what it remembers of the session", func(b *broken) {
		var remembered noted[history]
		b.append = func(ctx context.Context, id string, m history, _ *writeOpts) (session.Version, error) {
			old, ok := remembered.get(id)
			if !ok {
				old, _ = b.whole.Load(ctx, id)
			}
			old = append(slices.Clip(old), m...)
			remembered.set(id, old)
			return b.whole.Replace(ctx, id, old, nil)
		}
	}},
}

// onInfo lets f change what Info returns.
func (b *broken) onInfo(f func(*session.Info)) {
	info := b.info
	b.info = func(ctx context.Context, id string) (session.Info, error) {
		i, err := info(ctx, id)
		if err == nil {
			f(&i)
		}
		return i, err
	}
}

// editing lets f stand between Update and change.
func (b *broken) editing(f func(m *session.Meta, change changing) error) {
	update := b.update
	b.update = func(ctx context.Context, id string, change changing) (session.Info, error) {
		return update(ctx, id, func(m *session.Meta) error { return f(m, change) })
	}
}

var brokenUpdates = []breakage{
	{"Update/StoresEveryField", "has no column for Workspace", func(b *broken) {
		b.editing(func(m *session.Meta, change changing) error {
			err := change(m)
			m.Workspace = ""
			return err
		})
	}},
	{"Update/SeesWhatIsStored", "gives change an empty Meta", func(b *broken) {
		b.editing(func(m *session.Meta, change changing) error {
			*m = session.Meta{}
			return change(m)
		})
	}},
	{"Update/OfAbsentSessionIsNotFound", "creates the session", func(b *broken) {
		update := b.update
		b.update = func(ctx context.Context, id string, change changing) (session.Info, error) {
			b.whole.Append(ctx, id, nil, nil)
			if b.version(ctx, id) == session.Absent {
				b.whole.Replace(ctx, id, nil, nil)
			}
			return update(ctx, id, change)
		}
	}},
	{"Update/ReturnsTheErrorOfChange", "stores what a change left that failed", func(b *broken) {
		b.editing(func(m *session.Meta, change changing) error { change(m); return nil })
	}},
	{"Update/ReturnsTheErrorOfChange", "puts an error of its own in place of change's", func(b *broken) {
		b.editing(func(m *session.Meta, change changing) error {
			if change(m) != nil {
				return session.ErrConflict
			}
			return nil
		})
	}},
	{"Update/LeavesMessagesAlone", "writes the whole session again", (*broken).rewritesOnUpdate},
	{"Update/LosesNoConcurrentUpdate", "reads Meta, then writes it", func(b *broken) {
		b.update = func(ctx context.Context, id string, change changing) (session.Info, error) {
			info, err := b.whole.Info(ctx, id)
			if err == nil {
				err = change(&info.Meta)
			}
			if err != nil {
				return session.Info{}, err
			}
			widen()
			return b.whole.Update(ctx, id, func(m *session.Meta) error { *m = info.Meta; return nil })
		}
	}},
	{"Update/HoldsNoLock", "is busy while change runs", func(b *broken) {
		var busy atomic.Int64
		b.editing(func(m *session.Meta, change changing) error {
			busy.Add(1)
			defer busy.Add(-1)
			return change(m)
		})
		add := b.append
		b.append = func(ctx context.Context, id string, m history, o *writeOpts) (session.Version, error) {
			if busy.Load() > 0 {
				return "", errors.New("database is locked")
			}
			return add(ctx, id, m, o)
		}
	}},
	{"Update/FillsNothing", "makes a title of the first prompt", func(b *broken) {
		save := b.save
		b.save = func(ctx context.Context, id string, m history) error {
			err := save(ctx, id, m)
			b.whole.Update(ctx, id, func(meta *session.Meta) error { meta.Title = "a title"; return nil })
			return err
		}
	}},
	{"Update/RefusesWhatItCantKeep", "cuts a Summary that is too long", func(b *broken) {
		b.editing(func(m *session.Meta, change changing) error {
			err := change(m)
			m.Summary = m.Summary[:min(len(m.Summary), 30_000)]
			return err
		})
	}},
	{"Update/RefusesWhatItCantKeep", "replaces what is not UTF-8 in a Title", func(b *broken) {
		b.editing(func(m *session.Meta, change changing) error {
			err := change(m)
			m.Title = strings.ToValidUTF8(m.Title, "?")
			return err
		})
	}},
	{"Order/UpdatedNeverGoesBack", "shows the writer's clock", func(b *broken) {
		written := share[noted[time.Time]](b)
		b.beforeWrites(func(id string) { written.set(id, b.env.Now()) })
		b.onInfo(func(i *session.Info) { i.Updated, _ = written.get(i.ID) })
	}},
}

var brokenExpiries = []breakage{
	{"Expiry/IsAbsence", "reads a session until it is removed", func(b *broken) { b.load = b.frozen(0).Load }},
	{"Expiry/IsAbsence", "updates a session until it is removed", func(b *broken) { b.update = b.frozen(0).Update }},
	{"Expiry/IsAfterTheTTL", "lets a session expire ten seconds early", func(b *broken) { b.load = b.frozen(10 * time.Second).Load }},
	{"Expiry/IsPutOffByEveryWrite", "does not put the expiry off with Update", func(b *broken) {
		commit, head := b.driver.commit, b.driver.head
		b.driver.commit = func(ctx context.Context, id string, c session.Commit) error {
			if old, _ := head(ctx, id); c.Head != nil && c.SetMeta && old.Rev != "" {
				changed := *c.Head
				changed.Expires = old.Expires
				c.Head = &changed
			}
			return commit(ctx, id, c)
		}
	}},
	{"Expiry/IsPutOffByEveryWrite", "expires message by message", func(b *broken) {
		times := share[noted[[]time.Time]](b)
		add, load := b.append, b.load
		b.append = func(ctx context.Context, id string, m history, o *writeOpts) (session.Version, error) {
			times.change(id, func(at []time.Time) []time.Time { return append(at, b.env.Now()) })
			return add(ctx, id, m, o)
		}
		b.load = func(ctx context.Context, id string) (history, error) {
			m, err := load(ctx, id)
			at, _ := times.get(id)
			for len(at) > 0 && len(m) > 0 && b.env.Now().Sub(at[0]) >= brokenTTL {
				m, at = m[1:], at[1:]
			}
			return m, err
		}
	}},
	{"Expiry/IsNotPutOffByReads", "puts the expiry off with Load", func(b *broken) {
		load := b.load
		b.load = func(ctx context.Context, id string) (history, error) {
			b.whole.Update(ctx, id, func(*session.Meta) error { return nil })
			return load(ctx, id)
		}
	}},
	{"Expiry/LeavesNothingToTheNext", "leaves the Meta of an expired session to the next", func(b *broken) {
		commit := b.driver.commit
		b.driver.commit = func(ctx context.Context, id string, c session.Commit) error {
			if c.Head != nil && len(c.Head.Meta) == 0 {
				c.SetMeta = false
			}
			return commit(ctx, id, c)
		}
	}},
	{"Expiry/HoldsForSave", "still counts the messages of an expired session", func(b *broken) { b.countsSaved(share[noted[int]](b)) }},
	{"Expiry/IsEachSessionsOwn", "lists what has expired", func(b *broken) { b.list = b.frozen(0).List }},
}
