package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/session"
)

var versionRules = []rule{{
	"Versions/ChangeWithEveryWrite",
	"Every write of messages gives the session a new version, which it returns and which every handle then reads.",
	[]Feature{Log}, versionsChangeWithEveryWrite,
}, {
	"Versions/StayWithOtherCalls",
	"Update, Lock and reads leave the version as it is.",
	[]Feature{Log, Catalog}, versionsStayWithOtherCalls,
}, {
	"Versions/NeverRepeat",
	"A version never repeats, also when a session is deleted and made again in the same way.",
	[]Feature{Log}, versionsNeverRepeat,
}, {
	"Versions/GuardWrites",
	"A write with the current version as IfVersion is made; with any other it is ErrConflict, writes nothing, and Error.Current has the current version.",
	[]Feature{Log}, versionsGuardWrites,
}, {
	"Versions/GuardNoOps",
	"An empty Append, and a Truncate that removes nothing, check IfVersion as other writes do.",
	[]Feature{Log}, versionsGuardNoOps,
}, {
	"Versions/GuardDelete",
	"Delete with IfVersion removes the session only if that is its version.",
	[]Feature{Log, Catalog}, versionsGuardDelete,
}, {
	"Versions/GuardCreation",
	"A write with IfVersion Absent is made only if there is no such session; any other IfVersion conflicts then, and Error.Current is Absent.",
	[]Feature{Log}, versionsGuardCreation,
}, {
	"Versions/LetOneWriterWin",
	"Of concurrent writes with the same IfVersion, one is made.",
	[]Feature{Log}, versionsLetOneWriterWin,
}, {
	"Versions/LoseNoUpdate",
	"Writers that read, change and write with IfVersion, and try again after ErrConflict, lose nothing.",
	[]Feature{Log}, versionsLoseNoUpdate,
}}

// writeOp is a write of messages that takes WriteOptions.
type writeOp struct {
	name string
	call func(ctx context.Context, s *subject, id string, opts *session.WriteOptions) (session.Version, error)
}

var writeOps = []writeOp{
	{"Append", func(ctx context.Context, s *subject, id string, opts *session.WriteOptions) (session.Version, error) {
		return s.log.Append(ctx, id, userTexts("appended"), opts)
	}},
	{"Replace", func(ctx context.Context, s *subject, id string, opts *session.WriteOptions) (session.Version, error) {
		return s.log.Replace(ctx, id, userTexts("replaced", "by", "three"), opts)
	}},
	{"Truncate", func(ctx context.Context, s *subject, id string, opts *session.WriteOptions) (session.Version, error) {
		return s.log.Truncate(ctx, id, 1, opts)
	}},
}

func versionsChangeWithEveryWrite(tb testing.TB, s *subject) {
	peers := s.peers(tb, 2)
	before := s.version(tb, id)
	want(tb, before, session.Absent, "version of no session")
	check := func(what string, v session.Version, err error) {
		tb.Helper()
		must(tb, err, "%s", what)
		if v == before || v == session.AnyVersion || v == session.Absent {
			tb.Errorf("version after %s = %q, want a new one; before it was %q", what, v, before)
		}
		for _, p := range peers {
			want(tb, p.version(tb, id), v, "version that is read after %s returned it", what)
			if p.catalog != nil && s.opts.has(Catalog) {
				want(tb, p.info(tb, id).Version, v, "Info.Version after %s", what)
			}
		}
		before = v
	}
	ctx, log := s.ctx, func(n int) session.Log { return peers[n%2].log }
	for n := range 4 {
		v, err := log(n).Append(ctx, id, userTexts("a"), nil)
		check("Append", v, err)
		v, err = log(n+1).Append(ctx, id, userTexts("a", "b", "c"), nil)
		check("Append of a batch", v, err)
		v, err = log(n).Truncate(ctx, id, 2, nil)
		check("Truncate", v, err)
		v, err = log(n+1).Replace(ctx, id, userTexts("x"), nil)
		check("Replace", v, err)
		v, err = log(n).Replace(ctx, id, userTexts("x"), nil)
		check("Replace by the same", v, err)
		v, err = log(n+1).Replace(ctx, id, userTexts("x", "y"), nil)
		check("Replace by an extension", v, err)
		v, err = log(n).Replace(ctx, id, nil, nil)
		check("Replace by nothing", v, err)
		err = peers[n%2].store.Save(ctx, id, userTexts("z"))
		check("Save", peers[n%2].version(tb, id), err)
	}
}

func versionsStayWithOtherCalls(tb testing.TB, s *subject) {
	v := s.append(tb, id, "a", "b")
	p := s.peer(tb)
	check := func(after string) {
		tb.Helper()
		want(tb, p.version(tb, id), v, "version after %s", after)
		want(tb, s.info(tb, id).Version, v, "Info.Version after %s", after)
	}
	info := s.setMeta(tb, id, session.Meta{Title: "t"})
	want(tb, info.Version, v, "the version that Update returned")
	check("Update")
	s.load(tb, id)
	s.list(tb, nil)
	check("Load and List")
	if s.locker == nil || !s.opts.has(Locker) {
		return
	}
	lease := s.lock(tb, id, nil)
	check("Lock")
	must(tb, lease.Release(s.ctx), "Release")
	check("Release")
}

func versionsNeverRepeat(tb testing.TB, s *subject) {
	peers := s.peers(tb, 2)
	seen := make(map[session.Version]int)
	n := 0
	check := func(v session.Version, err error) {
		tb.Helper()
		must(tb, err, "write %d", n)
		if before, ok := seen[v]; ok {
			tb.Errorf("write %d returned version %q, as write %d did", n, v, before)
		}
		seen[v] = n
		n++
	}
	for round := range 10 {
		log := peers[round%2].log
		for range 5 {
			check(log.Append(s.ctx, id, userTexts("same"), nil))
		}
		check(log.Truncate(s.ctx, id, 1, nil))
		check(log.Replace(s.ctx, id, userTexts("same"), nil))
		if s.catalog != nil && s.opts.has(Catalog) {
			peers[round%2].delete(tb, id)
		} else {
			check(log.Replace(s.ctx, id, nil, nil))
		}
	}
}

// wantConflict reports an error that is not ErrConflict at version current.
func wantConflict(tb testing.TB, err error, current session.Version, call string, args ...any) {
	tb.Helper()
	wantErr(tb, err, is(session.ErrConflict), call, args...)
	var e *session.Error
	if errors.As(err, &e) {
		want(tb, e.Current, current, "Error.Current of "+call, args...)
	} else {
		tb.Errorf("%s: error is a %T, want a *session.Error", fmt.Sprintf(call, args...), err)
	}
}

// otherVersions returns versions that session id is not at.
func (s *subject) otherVersions(tb testing.TB) []session.Version {
	tb.Helper()
	stale := s.append(tb, id, "one")
	s.append(tb, "other", "one")
	other := s.append(tb, "other", "two")
	current := s.append(tb, id, "two", "three")
	return []session.Version{
		stale, other, session.Absent, "nonsense", "0", "1", "\x00", "\xff", "ABSENT",
		current + "0", current[:len(current)-1], session.Version(strings.Repeat("9", 4000)),
	}
}

func versionsGuardWrites(tb testing.TB, s *subject) {
	p := s.peer(tb)
	stale := s.otherVersions(tb)
	for _, op := range writeOps {
		before := s.state(tb, id)
		for _, v := range stale {
			_, err := op.call(s.ctx, p, id, &session.WriteOptions{IfVersion: v})
			wantConflict(tb, err, before.Version, "%s with IfVersion %q", op.name, v)
		}
		want(tb, s.state(tb, id), before, "the session after conflicts of %s", op.name)
		v, err := op.call(s.ctx, p, id, &session.WriteOptions{IfVersion: before.Version})
		must(tb, err, "%s with the current version", op.name)
		want(tb, s.version(tb, id), v, "version after %s", op.name)
		stale = append(stale, before.Version)
	}
	wantTexts(tb, s.load(tb, id), []string{"replaced"}, "Load after the guarded writes")
}

func versionsGuardNoOps(tb testing.TB, s *subject) {
	stale := s.otherVersions(tb)
	before := s.state(tb, id)
	for _, v := range append(stale, before.Version) {
		_, appendErr := s.log.Append(s.ctx, id, nil, &session.WriteOptions{IfVersion: v})
		_, truncateErr := s.log.Truncate(s.ctx, id, 3, &session.WriteOptions{IfVersion: v})
		if v == before.Version {
			must(tb, errors.Join(appendErr, truncateErr), "no-ops with the current version")
			continue
		}
		wantConflict(tb, appendErr, before.Version, "empty Append with IfVersion %q", v)
		wantConflict(tb, truncateErr, before.Version, "Truncate to the whole with IfVersion %q", v)
	}
	want(tb, s.state(tb, id), before, "the session after no-ops")
}

func versionsGuardDelete(tb testing.TB, s *subject) {
	p := s.peer(tb)
	stale := s.otherVersions(tb)
	before := s.state(tb, id)
	for _, v := range stale {
		err := p.catalog.Delete(s.ctx, id, &session.WriteOptions{IfVersion: v})
		wantConflict(tb, err, before.Version, "Delete with IfVersion %q", v)
	}
	want(tb, s.state(tb, id), before, "the session after conflicts of Delete")
	current := session.WriteOptions{IfVersion: before.Version}
	must(tb, p.catalog.Delete(s.ctx, id, &current), "Delete with the current version")
	want(tb, s.state(tb, id).Exists, false, "existence after Delete")
	err := p.catalog.Delete(s.ctx, id, &current)
	wantConflict(tb, err, session.Absent, "a second Delete with the version that is gone")
	must(tb, p.catalog.Delete(s.ctx, id, &session.WriteOptions{IfVersion: session.Absent}), "Delete with IfVersion Absent of no session")
}

func versionsGuardCreation(tb testing.TB, s *subject) {
	gone := s.append(tb, "other", "a")
	for _, op := range writeOps {
		for _, v := range []session.Version{gone, "nonsense"} {
			_, err := op.call(s.ctx, s, op.name, &session.WriteOptions{IfVersion: v})
			wantConflict(tb, err, session.Absent, "%s of no session with IfVersion %q", op.name, v)
		}
		want(tb, s.version(tb, op.name), session.Absent, "version after conflicts of %s", op.name)
		v, err := op.call(s.ctx, s, op.name, &session.WriteOptions{IfVersion: session.Absent})
		must(tb, err, "%s of no session with IfVersion Absent", op.name)
		want(tb, s.version(tb, op.name), v, "version after %s", op.name)
		if op.name == "Truncate" {
			continue
		}
		_, err = op.call(s.ctx, s, op.name, &session.WriteOptions{IfVersion: session.Absent})
		wantConflict(tb, err, v, "%s of a session with IfVersion Absent", op.name)
	}
}

func versionsLetOneWriterWin(tb testing.TB, s *subject) {
	peers := s.peers(tb, 8)
	v := session.Absent
	for round := range 10 {
		var won atomic.Int32
		s.together(tb, len(peers), func(w int) error {
			_, err := peers[w].log.Append(s.ctx, id, userTexts(fmt.Sprint("m", round+1)), &session.WriteOptions{IfVersion: v})
			if err == nil {
				won.Add(1)
				return nil
			}
			return checkErr(err, is(session.ErrConflict), "Append with the IfVersion of all")
		})
		want(tb, won.Load(), 1, "writers that won round %d", round)
		v = s.version(tb, id)
	}
	wantTexts(tb, s.load(tb, id), numbered("m", 10), "Load after ten rounds")
}

func versionsLoseNoUpdate(tb testing.TB, s *subject) {
	const times = 8
	peers := s.peers(tb, 4)
	s.together(tb, len(peers), func(w int) error {
		for done := 0; done < times; {
			snap, err := peers[w].log.Read(s.ctx, id, nil)
			if err != nil {
				return fmt.Errorf("Read: %w", err)
			}
			next := append(snap.Messages, session.UserText(fmt.Sprint("m", snap.Total+1)))
			_, err = peers[w].log.Replace(s.ctx, id, next, &session.WriteOptions{IfVersion: snap.Version})
			switch {
			case err == nil:
				done++
			case !errors.Is(err, session.ErrConflict):
				return fmt.Errorf("Replace: %w", err)
			}
		}
		return nil
	})
	wantTexts(tb, s.load(tb, id), numbered("m", times*len(peers)), "Load")
}
