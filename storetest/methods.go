package storetest

import (
	"context"
	"testing"

	"github.com/holdfast-go/session"
)

// method is a method of a store as the rules about all of them call it.
type method struct {
	op     string // as in session.Error
	of     Feature
	writes bool // it would change session id
	call   func(ctx context.Context, s *subject, id string) error
}

// methods are all that take a session ID, and List.
var methods = []method{
	{"load", "", false, func(ctx context.Context, s *subject, id string) error {
		_, err := s.store.Load(ctx, id)
		return err
	}},
	{"save", "", true, func(ctx context.Context, s *subject, id string) error {
		return s.store.Save(ctx, id, userTexts("by save"))
	}},
	{"read", Log, false, func(ctx context.Context, s *subject, id string) error {
		_, err := s.log.Read(ctx, id, nil)
		return err
	}},
	{"append", Log, true, func(ctx context.Context, s *subject, id string) error {
		_, err := s.log.Append(ctx, id, userTexts("by append"), nil)
		return err
	}},
	{"replace", Log, true, func(ctx context.Context, s *subject, id string) error {
		_, err := s.log.Replace(ctx, id, userTexts("by replace"), nil)
		return err
	}},
	{"truncate", Log, true, func(ctx context.Context, s *subject, id string) error {
		_, err := s.log.Truncate(ctx, id, 0, nil)
		return err
	}},
	{"info", Catalog, false, func(ctx context.Context, s *subject, id string) error {
		_, err := s.catalog.Info(ctx, id)
		return err
	}},
	{"list", Catalog, false, func(ctx context.Context, s *subject, _ string) error {
		for _, err := range s.catalog.List(ctx, nil) {
			if err != nil {
				return err
			}
		}
		return nil
	}},
	{"update", Catalog, true, func(ctx context.Context, s *subject, id string) error {
		_, err := s.catalog.Update(ctx, id, func(m *session.Meta) error { m.Title = "by update"; return nil })
		return err
	}},
	{"delete", Catalog, true, func(ctx context.Context, s *subject, id string) error {
		return s.catalog.Delete(ctx, id, nil)
	}},
	{"lock", Locker, false, func(ctx context.Context, s *subject, id string) error {
		lease, err := s.locker.Lock(ctx, id, &session.LockOptions{NoWait: true})
		if err == nil {
			err = lease.Release(context.Background())
		}
		return err
	}},
	{"salvage", optional, false, func(ctx context.Context, s *subject, id string) error {
		_, _, err := s.salvager.Salvage(ctx, id)
		return err
	}},
}

// methods returns the methods that the store offers and that opts.Lacks does
// not name.
func (s *subject) methods() []method {
	var offered []method
	for _, m := range methods {
		if s.offers(m.of) && s.opts.has(m.of) {
			offered = append(offered, m)
		}
	}
	return offered
}

// state is all that can be seen of a session.
type state struct {
	Texts   []string
	Version session.Version
	Info    session.Info
	Exists  bool
}

// state looks at a session through each interface that the store offers.
func (s *subject) state(tb testing.TB, id string) state {
	tb.Helper()
	st := state{Texts: textsOf(s.load(tb, id))}
	if s.log != nil && s.opts.has(Log) {
		st.Version = s.version(tb, id)
	}
	if s.catalog != nil && s.opts.has(Catalog) {
		info, err := s.catalog.Info(s.ctx, id)
		st.Exists = err == nil
		st.Info = info
		if err != nil {
			wantErr(tb, err, is(session.ErrNotFound), "Info(%q)", id)
			st.Info = session.Info{}
		}
	}
	return st
}
