package storetest

import (
	"context"
	"iter"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/holdfast-go/session"
)

// onInfos lets f change what List yields, or leave it out.
func (b *broken) onInfos(f func(session.Info) (session.Info, bool)) {
	list := b.list
	b.list = func(ctx context.Context, o *listOpts) iter.Seq2[session.Info, error] {
		return func(yield func(session.Info, error) bool) {
			for info, err := range list(ctx, o) {
				info, ok := f(info)
				if (ok || err != nil) && !yield(info, err) {
					return
				}
			}
		}
	}
}

// listing makes List yield what f returns of all infos.
func (b *broken) listing(f func(o listOpts, all []session.Info) []session.Info) {
	list := b.list
	b.list = func(ctx context.Context, o *listOpts) iter.Seq2[session.Info, error] {
		return func(yield func(session.Info, error) bool) {
			var all []session.Info
			for info, err := range list(ctx, nil) {
				if err != nil {
					yield(info, err)
					return
				}
				all = append(all, info)
			}
			for _, info := range f(optionsOf(o), all) {
				if !yield(info, nil) {
					return
				}
			}
		}
	}
}

// withOptions lets f change the options of List.
func (b *broken) withOptions(f func(o *listOpts)) {
	list := b.list
	b.list = func(ctx context.Context, o *listOpts) iter.Seq2[session.Info, error] {
		opts := optionsOf(o)
		f(&opts)
		return list(ctx, &opts)
	}
}

var brokenLists = []breakage{
	{"List/OfNothingIsEmpty", "does not find what there is nothing of", func(b *broken) {
		list := b.list
		b.list = func(ctx context.Context, o *listOpts) iter.Seq2[session.Info, error] {
			return func(yield func(session.Info, error) bool) {
				n := 0
				for info, err := range list(ctx, o) {
					if n++; !yield(info, err) {
						return
					}
				}
				if n == 0 {
					yield(session.Info{}, session.ErrNotFound)
				}
			}
		}
	}},
	{"List/AgreesWithInfo", "lists no Meta", func(b *broken) {
		b.onInfos(func(i session.Info) (session.Info, bool) { i.Meta = session.Meta{}; return i, true })
	}},
	{"List/IsNewestFirst", "lists the oldest first", func(b *broken) {
		b.listing(func(_ listOpts, all []session.Info) []session.Info { slices.Reverse(all); return all })
	}},
	{"List/IsNewestFirst", "lists by creation", func(b *broken) {
		b.listing(func(_ listOpts, all []session.Info) []session.Info {
			slices.SortFunc(all, func(x, y session.Info) int { return y.Created.Compare(x.Created) })
			return all
		})
	}},
	{"List/TiesByID", "orders IDs without their case", func(b *broken) {
		b.listing(func(o listOpts, all []session.Info) []session.Info {
			all = slices.DeleteFunc(all, func(i session.Info) bool { return !strings.HasPrefix(i.ID, o.Prefix) })
			slices.SortFunc(all, func(x, y session.Info) int { return strings.Compare(strings.ToLower(x.ID), strings.ToLower(y.ID)) })
			return all
		})
	}},
	{"List/StopsAtLimit", "lists one more than Limit", func(b *broken) {
		b.withOptions(func(o *listOpts) {
			if o.Limit > 0 {
				o.Limit++
			}
		})
	}},
	{"List/LeavesOutOlder", "leaves out what was updated at that very time", func(b *broken) {
		b.withOptions(func(o *listOpts) {
			if !o.UpdatedSince.IsZero() {
				o.UpdatedSince = o.UpdatedSince.Add(1)
			}
		})
	}},
	{"List/ContinuesAfter", "begins every page with the first session", func(b *broken) {
		b.withOptions(func(o *listOpts) { o.After = nil })
	}},
	{"List/ContinuesAmongTies", "continues by the time alone", func(b *broken) {
		b.listing(func(o listOpts, all []session.Info) []session.Info {
			return slices.DeleteFunc(all, func(i session.Info) bool { return o.After != nil && !i.Updated.Before(o.After.Updated) })
		})
	}},
	{"List/ContinuesAmongTies", "looks for the session it shall continue after", func(b *broken) {
		b.listing(func(o listOpts, all []session.Info) []session.Info {
			if o.After == nil {
				return all
			}
			return all[slices.IndexFunc(all, func(i session.Info) bool { return i.ID == o.After.ID })+1:]
		})
	}},
	{"List/StaysInItsFolder", "takes the prefix for a LIKE pattern", func(b *broken) {
		b.listing(func(o listOpts, all []session.Info) []session.Info {
			like := regexp.MustCompile("^" + strings.NewReplacer("_", ".", "%", ".*").Replace(regexp.QuoteMeta(o.Prefix)))
			return slices.DeleteFunc(all, func(i session.Info) bool { return !like.MatchString(i.ID) })
		})
	}},
	{"List/CombinesItsOptions", "applies Limit before Prefix", func(b *broken) {
		b.listing(func(o listOpts, all []session.Info) []session.Info {
			all = slices.DeleteFunc(all, func(i session.Info) bool {
				return i.Updated.Before(o.UpdatedSince) || o.After != nil && newestFirst(i, *o.After) <= 0
			})
			if o.Limit > 0 {
				all = all[:min(o.Limit, len(all))]
			}
			return slices.DeleteFunc(all, func(i session.Info) bool { return !strings.HasPrefix(i.ID, o.Prefix) })
		})
	}},
	{"List/MayBeLeft", "can be ranged over once", func(b *broken) {
		list := b.list
		b.list = func(ctx context.Context, o *listOpts) iter.Seq2[session.Info, error] {
			seq, used := list(ctx, o), false
			return func(yield func(session.Info, error) bool) {
				if !used {
					used = true
					seq(yield)
				}
			}
		}
	}},
	{"List/AllowsWritesMeanwhile", "ends a list when something is written", func(b *broken) {
		var writes atomic.Int64
		b.beforeWrites(func(string) { writes.Add(1) })
		list := b.list
		b.list = func(ctx context.Context, o *listOpts) iter.Seq2[session.Info, error] {
			return func(yield func(session.Info, error) bool) {
				before := writes.Load()
				for info, err := range list(ctx, o) {
					if !yield(info, err) || writes.Load() != before {
						return
					}
				}
			}
		}
	}},
	{"List/ShowsNoLeases", "makes a session to hold the lease", func(b *broken) {
		lock := b.lock
		b.lock = func(ctx context.Context, id string, o *lockOpts) (session.Lease, error) {
			if b.version(ctx, id) == session.Absent {
				b.whole.Save(ctx, id, nil)
			}
			return lock(ctx, id, o)
		}
	}},
	{"List/RefusesNegativeLimit", "takes a negative Limit for none", func(b *broken) {
		b.withOptions(func(o *listOpts) { o.Limit = max(o.Limit, 0) })
	}},
}
