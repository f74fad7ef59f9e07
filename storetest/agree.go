package storetest

import (
	"errors"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/holdfast-go/session"
)

// sentinels are the errors that two stores must agree on.
var sentinels = []error{
	session.ErrNotFound, session.ErrConflict, session.ErrInvalidID, session.ErrInvalidMessage, session.ErrInvalidOption,
	session.ErrTooLarge, session.ErrCorrupt, session.ErrNewerFormat, session.ErrLocked, session.ErrClosed,
}

// sameError reports errors that differ in what a caller can test.
func (m *model) sameError(t *rapid.T, id string, got, want error) {
	if (got == nil) != (want == nil) {
		t.Fatalf("%q: error = %v, want %v", id, got, want)
	}
	if got == nil {
		return
	}
	for _, s := range append(sentinels, m.done.Err()) {
		if errors.Is(got, s) != errors.Is(want, s) {
			t.Errorf("%q: error = %v, want %v", id, got, want)
		}
	}
	var g, w *session.Error
	if !errors.As(got, &g) || !errors.As(want, &w) {
		t.Fatalf("%q: error is a %T, want a *session.Error", id, got)
	}
	if g.Op != w.Op || g.SessionID != w.SessionID {
		t.Errorf("error of %q of %q, want of %q of %q", g.Op, g.SessionID, w.Op, w.SessionID)
	}
	m.sameVersion(t, g.Current, w.Current, "Error.Current")
}

// sameVersion reports versions that don't belong together: those that are equal
// in one store are equal in the other.
func (m *model) sameVersion(t *rapid.T, got, want session.Version, what string) {
	if got == "" && want == "" {
		return
	}
	p, known := m.paired[got]
	q, taken := m.taken[want]
	switch {
	case known != taken, known && (p != want || q != got):
		t.Fatalf("%s = %q, which does not agree with what it was before: the memstore has %q, once %q and %q", what, got, want, p, q)
	case !known:
		m.paired[got], m.taken[want] = want, got
	}
}

// sameWrite reports results of a write that differ, and histories that differ
// then.
func (m *model) sameWrite(t *rapid.T, id string, got, want session.Version, err, wantErr error, whole bool) {
	m.sameError(t, id, err, wantErr)
	m.sameVersion(t, got, want, "the version that was returned")
	m.sameSession(t, id, whole)
}

// sameSession reads a session from both stores, through each handle, and
// reports a difference. whole says that it may just have got a whole history.
func (m *model) sameSession(t *rapid.T, id string, whole bool) {
	want, err := m.reference.Read(m.ctx, id, nil)
	if err != nil {
		t.Fatalf("memstore: Read(%q): %v", id, err)
	}
	for _, s := range m.stores {
		got, err := s.log.Read(m.ctx, id, nil)
		if err != nil {
			t.Fatalf("Read(%q): %v", id, err)
		}
		m.sameSnapshot(t, id, got, want)
		m.sameBase(t, id, got, want, whole)
		info, err := s.catalog.Info(m.ctx, id)
		wantInfo, wantErr := m.reference.Info(m.ctx, id)
		m.sameError(t, id, err, wantErr)
		if err == nil {
			m.sameInfo(t, info, wantInfo)
		}
	}
}

func (m *model) sameSnapshot(t *rapid.T, id string, got, want session.Snapshot) {
	if diff := diffHistories(got.Messages, want.Messages); diff != "" {
		t.Fatalf("messages of %q: %s", id, diff)
	}
	if got.First != want.First || got.Total != want.Total {
		t.Fatalf("First, Total of %q = %d, %d, want %d, %d", id, got.First, got.Total, want.First, want.Total)
	}
	m.sameVersion(t, got.Version, want.Version, "Snapshot.Version")
}

// sameBase reports a Base that moved and should not, or the other way round. A
// whole history that extends the one before may count as an append or not.
func (m *model) sameBase(t *rapid.T, id string, got, want session.Snapshot, whole bool) {
	old := m.before[id]
	defer func() {
		got.Messages = want.Messages
		m.before[id] = got
		if v := (versionPair{got.Version, want.Version}); got.Version != old.Version {
			m.versions[id] = append(m.versions[id], v)
		}
	}()
	switch {
	case got.Base == old.Base && got.Version == old.Version:
	case want.Base != want.Version: // an append
		if got.Base != old.Base {
			t.Fatalf("Base of %q moved from %q to %q with an append", id, old.Base, got.Base)
		}
	case got.Base == got.Version:
	case whole && got.Base == old.Base && extendsHistory(want.Messages, old.Messages):
	default:
		t.Fatalf("Base of %q = %q at version %q, want it to be that version", id, got.Base, got.Version)
	}
}

func extendsHistory(long, short []session.Message) bool {
	return len(long) >= len(short) && session.EqualMessages(long[:len(short)], short)
}

// sameInfo reports Infos that differ; the times only if the clock stands still.
func (m *model) sameInfo(t *rapid.T, got, want session.Info) {
	m.sameVersion(t, got.Version, want.Version, "Info.Version")
	got.Version, want.Version = "", ""
	if m.opts.Advance == nil {
		if got.Updated.Before(got.Created) {
			t.Errorf("Updated of %q = %v, want not before Created, %v", got.ID, got.Updated, got.Created)
		}
		for _, i := range []*session.Info{&got, &want} {
			i.Created, i.Updated, i.Expires = time.Time{}, time.Time{}, time.Time{}
		}
	} else {
		for _, at := range []*time.Time{&want.Created, &want.Updated, &want.Expires} {
			if !at.IsZero() {
				*at = at.Add(m.ahead)
			}
		}
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(time.Time.Equal)); diff != "" {
		t.Fatalf("Info of %q (-want +got)\n%s", got.ID, diff)
	}
}
