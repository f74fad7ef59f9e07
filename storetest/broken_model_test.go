package storetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/session"
)

var brokenModels = []breakage{
	{"Model/AgreesWithMemstore", "forgets Keys with a Truncate", func(b *broken) {
		generation := share[noted[string]](b)
		b.onKey(func(_ context.Context, id, key string, write func(string) (session.Version, error)) (session.Version, error) {
			g, _ := generation.get(id)
			return write(g + key)
		})
		truncate := b.truncate
		b.truncate = func(ctx context.Context, id string, keep int, o *writeOpts) (session.Version, error) {
			before := b.version(ctx, id)
			v, err := truncate(ctx, id, keep, o)
			if v != before {
				generation.change(id, func(g string) string { return g + "'" })
			}
			return v, err
		}
	}},
	{"Model/AgreesWithMemstore", "takes any longer history for an extension", func(b *broken) {
		b.replace = func(ctx context.Context, id string, m history, o *writeOpts) (session.Version, error) {
			if old, _ := b.whole.Load(ctx, id); len(old) > 0 && len(old) < len(m) {
				return b.whole.Append(ctx, id, m[len(old):], o)
			}
			return b.whole.Replace(ctx, id, m, o)
		}
	}},
	{"Model/AgreesWithMemstore", "has a new Base with every version", (*broken).movesBase},
	{"Model/AgreesWithMemstore", "loses the labels with a Truncate", func(b *broken) {
		truncate := b.truncate
		b.truncate = func(ctx context.Context, id string, keep int, o *writeOpts) (session.Version, error) {
			before := b.version(ctx, id)
			v, err := truncate(ctx, id, keep, o)
			if err == nil && v != before {
				b.whole.Update(ctx, id, func(m *session.Meta) error { m.Labels = nil; return nil })
			}
			return v, err
		}
	}},
	{"Model/AgreesWithMemstore", "folds the case of IDs", func(b *broken) { b.onID(strings.ToLower) }},
	{"Model/AgreesWithMemstore", "reads a session until it is removed", func(b *broken) { b.read = b.frozen(0).Read }},
	{"Model/AgreesWithMemstore", "lists ties in no order", func(b *broken) {
		b.listing(func(o listOpts, all []session.Info) []session.Info {
			all = slices.DeleteFunc(all, func(i session.Info) bool { return !strings.HasPrefix(i.ID, o.Prefix) })
			slices.SortStableFunc(all, func(x, y session.Info) int { return strings.Compare(y.ID, x.ID) })
			slices.SortStableFunc(all, func(x, y session.Info) int { return y.Updated.Compare(x.Updated) })
			return all
		})
	}},
	{"Model/AgreesWithMemstore", "names the required version as the current one", func(b *broken) {
		del := b.delete
		b.delete = func(ctx context.Context, id string, o *writeOpts) error {
			err := del(ctx, id, o)
			if e := (*session.Error)(nil); errors.As(err, &e) && e.Current != "" {
				e.Current = o.IfVersion
			}
			return err
		}
	}},

	{"Linear/IsOneHistory", "reads the history and writes it back, and loses what came between", (*broken).readModifyWrite},
	{"Linear/IsOneHistory", "checks IfVersion, then writes", func(b *broken) {
		b.checkThenAct()
		checked := b.append
		b.append = func(ctx context.Context, id string, m history, o *writeOpts) (session.Version, error) {
			if optionsOf(o).Key != "" || len(m) == 0 {
				return b.whole.Append(ctx, id, m, o)
			}
			return checked(ctx, id, m, o)
		}
		b.replace = b.whole.Replace
	}},
	{"Linear/IsOneHistory", "writes a batch message by message", func(b *broken) {
		b.append = func(ctx context.Context, id string, m history, o *writeOpts) (v session.Version, err error) {
			if o := optionsOf(o); len(m) < 2 || o.Key != "" || o.IfVersion != "" {
				return b.whole.Append(ctx, id, m, &o)
			}
			for i := range m {
				if v, err = b.whole.Append(ctx, id, m[i:i+1], nil); err != nil {
					return v, err
				}
				widen()
			}
			return v, nil
		}
	}},
	{"Linear/IsOneHistory", "reads what it had some time ago", func(b *broken) {
		type read struct {
			session.Snapshot
			at time.Time
		}
		var cache noted[read]
		b.read = func(ctx context.Context, id string, o *readOpts) (session.Snapshot, error) {
			if c, ok := cache.get(id); ok && time.Since(c.at) < 5*time.Millisecond {
				c.Messages = session.CloneMessages(c.Messages)
				from, to := optionsOf(o).Span(c.Total)
				c.Messages = c.Messages[from:to]
				return c.Snapshot, nil
			}
			s, err := b.whole.Read(ctx, id, nil)
			cache.set(id, read{s, time.Now()})
			from, to := optionsOf(o).Span(s.Total)
			s.Messages = session.CloneMessages(s.Messages)[from:to]
			return s, err
		}
	}},
	{"Linear/IsOneHistory", "looks for the Key, then writes", func(b *broken) {
		b.notesKeys(share[noted[session.Version]](b), sessionAndKey)
	}},
	{"Linear/IsOneHistory", "reads the version, then the messages", func(b *broken) {
		read := b.read
		b.read = func(ctx context.Context, id string, o *readOpts) (session.Snapshot, error) {
			v := b.version(ctx, id)
			widen()
			s, err := read(ctx, id, o)
			s.Version = v
			return s, err
		}
	}},
}
