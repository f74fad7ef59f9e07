package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/holdfast-go/session"
)

var brokenVersions = []breakage{
	{"Versions/ChangeWithEveryWrite", "takes a Replace by the same history for no write", func(b *broken) {
		replace := b.replace
		b.replace = func(ctx context.Context, id string, m history, o *writeOpts) (session.Version, error) {
			old, err := b.whole.Read(ctx, id, nil)
			if err == nil && session.EqualMessages(old.Messages, m) && old.Total > 0 {
				return old.Version, nil
			}
			return replace(ctx, id, m, o)
		}
	}},
	{"Versions/StayWithOtherCalls", "has a new version after Update", (*broken).rewritesOnUpdate},
	{"Versions/NeverRepeat", "numbers the versions of a session from 1", func(b *broken) {
		counts := share[noted[int]](b)
		was := *b
		next := func(id string, err error) (session.Version, error) {
			return session.Version(fmt.Sprint(counts.change(id, func(n int) int { return n + 1 }))), err
		}
		b.append = func(ctx context.Context, id string, m history, o *writeOpts) (session.Version, error) {
			_, err := was.append(ctx, id, m, o)
			return next(id, err)
		}
		b.replace = func(ctx context.Context, id string, m history, o *writeOpts) (session.Version, error) {
			_, err := was.replace(ctx, id, m, o)
			return next(id, err)
		}
		b.truncate = func(ctx context.Context, id string, keep int, o *writeOpts) (session.Version, error) {
			_, err := was.truncate(ctx, id, keep, o)
			return next(id, err)
		}
		b.delete = func(ctx context.Context, id string, o *writeOpts) error {
			counts.set(id, 0)
			return was.delete(ctx, id, o)
		}
	}},
	{"Versions/GuardWrites", "does not look at IfVersion", (*broken).ignoresIfVersion},
	{"Versions/GuardWrites", "does not say what the version is", func(b *broken) {
		b.truncate = func(ctx context.Context, id string, keep int, o *writeOpts) (session.Version, error) {
			v, err := b.whole.Truncate(ctx, id, keep, o)
			if err != nil {
				err = &session.Error{Op: "truncate", SessionID: id, Err: session.ErrConflict}
			}
			return v, err
		}
	}},
	{"Versions/GuardNoOps", "does not look at IfVersion if there is nothing to append", func(b *broken) {
		add := b.append
		b.append = func(ctx context.Context, id string, m history, o *writeOpts) (session.Version, error) {
			if len(m) == 0 {
				return b.version(ctx, id), nil
			}
			return add(ctx, id, m, o)
		}
	}},
	{"Versions/GuardDelete", "deletes whatever the version is", func(b *broken) {
		b.delete = func(ctx context.Context, id string, _ *writeOpts) error { return b.whole.Delete(ctx, id, nil) }
	}},
	{"Versions/GuardCreation", "takes Absent for no check", func(b *broken) {
		add := b.append
		b.append = func(ctx context.Context, id string, m history, o *writeOpts) (session.Version, error) {
			opts := optionsOf(o)
			if opts.IfVersion == session.Absent {
				opts.IfVersion = ""
			}
			return add(ctx, id, m, &opts)
		}
	}},
	{"Versions/LetOneWriterWin", "checks IfVersion, then writes", (*broken).checkThenAct},
	{"Versions/LoseNoUpdate", "checks IfVersion, then writes", (*broken).checkThenAct},
}

func (b *broken) ignoresIfVersion() {
	add := b.append
	b.append = func(ctx context.Context, id string, m history, o *writeOpts) (session.Version, error) {
		opts := optionsOf(o)
		opts.IfVersion = ""
		return add(ctx, id, m, &opts)
	}
}

func (b *broken) rewritesOnUpdate() {
	update := b.update
	b.update = func(ctx context.Context, id string, change changing) (session.Info, error) {
		info, err := update(ctx, id, change)
		if err == nil {
			m, _ := b.whole.Load(ctx, id)
			info.Version, err = b.whole.Replace(ctx, id, m, nil)
		}
		return info, err
	}
}

// onKey lets f decide about appends with a Key.
func (b *broken) onKey(f func(ctx context.Context, id, key string, write func(key string) (session.Version, error)) (session.Version, error)) {
	add := b.append
	b.append = func(ctx context.Context, id string, m history, o *writeOpts) (session.Version, error) {
		opts := optionsOf(o)
		if opts.Key == "" {
			return add(ctx, id, m, o)
		}
		return f(ctx, id, opts.Key, func(key string) (session.Version, error) {
			opts.Key = key
			return add(ctx, id, m, &opts)
		})
	}
}

// notesKeys keeps what keyed appends led to in a note of the breakage's own,
// under a name, and looks there before it writes.
func (b *broken) notesKeys(notes *noted[session.Version], name func(id, key string) string) {
	b.onKey(func(_ context.Context, id, key string, write func(string) (session.Version, error)) (session.Version, error) {
		if v, ok := notes.get(name(id, key)); ok {
			return v, nil
		}
		widen()
		v, err := write("")
		if err == nil {
			notes.set(name(id, key), v)
		}
		return v, err
	})
}

func sessionAndKey(id, key string) string { return id + "\x00" + key }

var brokenKeys = []breakage{
	{"Keys/MakeRetriesHarmless", "stores a retry again", func(b *broken) {
		b.onKey(func(_ context.Context, _, _ string, write func(string) (session.Version, error)) (session.Version, error) {
			return write("")
		})
	}},
	{"Keys/MakeRetriesHarmless", "returns the current version to a retry", func(b *broken) {
		b.onKey(func(ctx context.Context, id, key string, write func(string) (session.Version, error)) (session.Version, error) {
			_, err := write(key)
			return b.version(ctx, id), err
		})
	}},
	{"Keys/CompareNothingElse", "keeps the Keys of each method apart", func(b *broken) {
		b.onKey(func(_ context.Context, _, key string, write func(string) (session.Version, error)) (session.Version, error) {
			return write("append " + key)
		})
	}},
	{"Keys/GoBeforeIfVersion", "checks IfVersion before the Key", func(b *broken) {
		add := b.append
		b.append = func(ctx context.Context, id string, m history, o *writeOpts) (session.Version, error) {
			opts := optionsOf(o)
			if v := b.version(ctx, id); opts.IfVersion != "" && opts.IfVersion != v {
				return "", &session.Error{Op: "append", SessionID: id, Err: session.ErrConflict, Current: v}
			}
			return add(ctx, id, m, o)
		}
	}},
	{"Keys/AreRememberedFor31Others", "remembers 31 Keys", func(b *broken) {
		last := share[noted[[]string]](b)
		was := *b
		remember := func(id string, o *writeOpts) *writeOpts {
			opts := optionsOf(o)
			last.change(id, func(keys []string) []string {
				if known := slices.Contains(keys, opts.Key); !known && opts.Key != "" {
					keys = append(keys, opts.Key)
				}
				return keys[max(0, len(keys)-31):]
			})
			if keys, _ := last.get(id); len(keys) == 31 && opts.Key == "first" {
				opts.Key = ""
			}
			return &opts
		}
		b.append = func(ctx context.Context, id string, m history, o *writeOpts) (session.Version, error) {
			return was.append(ctx, id, m, remember(id, o))
		}
		b.replace = func(ctx context.Context, id string, m history, o *writeOpts) (session.Version, error) {
			return was.replace(ctx, id, m, remember(id, o))
		}
		b.truncate = func(ctx context.Context, id string, keep int, o *writeOpts) (session.Version, error) {
			return was.truncate(ctx, id, keep, remember(id, o))
		}
	}},
	{"Keys/LetOneTryWrite", "looks for the Key, then writes", func(b *broken) {
		b.notesKeys(share[noted[session.Version]](b), sessionAndKey)
	}},
	{"Keys/BelongToTheirSession", "has one name space of Keys for all sessions", func(b *broken) {
		b.notesKeys(share[noted[session.Version]](b), func(_, key string) string { return key })
	}},
	{"Keys/EndWithTheirSession", "keeps Keys when their session is deleted", func(b *broken) {
		b.notesKeys(share[noted[session.Version]](b), sessionAndKey)
	}},
	{"Keys/OfRefusedWritesMeanNothing", "notes a Key before it writes", func(b *broken) {
		notes := share[noted[session.Version]](b)
		b.onKey(func(ctx context.Context, id, key string, write func(string) (session.Version, error)) (session.Version, error) {
			if _, ok := notes.get(sessionAndKey(id, key)); ok {
				return b.version(ctx, id), nil
			}
			notes.set(sessionAndKey(id, key), "")
			return write("")
		})
	}},
	{"Keys/AreUpTo64Bytes", "cuts a Key after 64 bytes", func(b *broken) {
		b.onKey(func(_ context.Context, _, key string, write func(string) (session.Version, error)) (session.Version, error) {
			return write(key[:min(len(key), 64)])
		})
	}},
	{"Keys/AreUpTo64Bytes", "compares Keys without outer white space", func(b *broken) {
		b.onKey(func(_ context.Context, _, key string, write func(string) (session.Version, error)) (session.Version, error) {
			return write(strings.TrimSpace(key))
		})
	}},
	{"Keys/AreNotForDelete", "does not look at the Key of a Delete", func(b *broken) {
		b.delete = func(ctx context.Context, id string, o *writeOpts) error {
			opts := optionsOf(o)
			opts.Key = ""
			return b.whole.Delete(ctx, id, &opts)
		}
	}},
}

var brokenReopens = []breakage{
	{"Reopen/KeepsEverything", "keeps Keys in the memory of a handle", func(b *broken) { b.notesKeys(new(noted[session.Version]), sessionAndKey) }},
	{"Reopen/GoesOn", "numbers versions in the memory of a handle", func(b *broken) {
		var count atomic.Int64
		add := b.append
		b.append = func(ctx context.Context, id string, m history, o *writeOpts) (session.Version, error) {
			_, err := add(ctx, id, m, o)
			return session.Version(fmt.Sprint(count.Add(1))), err
		}
	}},
	{"Salvage/OfWhatIsWhole", "takes the last message for a torn one", func(b *broken) {
		salvage := b.salvage
		b.salvage = func(ctx context.Context, id string) (session.Snapshot, []session.Damage, error) {
			s, damage, err := salvage(ctx, id)
			s.Messages = s.Messages[:max(0, len(s.Messages)-1)]
			return s, damage, err
		}
	}},
}
