package storetest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/session"
)

var errorRules = []rule{{
	"Errors/NameOperationAndSession",
	"Operations return a *session.Error that has the method's name, in lower case, and the session's ID.",
	nil, errorsNameOperationAndSession,
}, {
	"Errors/ShowNoContent",
	"No error text shows the content of a message or of Meta.",
	nil, errorsShowNoContent,
}}

func errorsNameOperationAndSession(tb testing.TB, s *subject) {
	cancelled, cancel := context.WithCancel(s.ctx)
	cancel()
	check := func(err error, op, id string) {
		tb.Helper()
		var e *session.Error
		if !errors.As(err, &e) {
			tb.Errorf("%s: error = %v, a %T, want a *session.Error", op, err, err)
			return
		}
		want(tb, [2]string{e.Op, e.SessionID}, [2]string{op, id}, "Op and SessionID of the error %q", err)
		var inner *session.Error
		if errors.As(e.Err, &inner) {
			tb.Errorf("%s: error %q wraps another *session.Error", op, err)
		}
	}
	for _, m := range s.methods() {
		if m.op == "list" {
			check(m.call(cancelled, s, ""), m.op, "")
			continue
		}
		check(m.call(cancelled, s, id), m.op, id)
		check(m.call(s.ctx, s, "a\x00b"), m.op, "a\x00b")
	}
	check(s.store.Save(s.ctx, id, userTexts("\xff")), "save", id)
	if s.log != nil && s.opts.has(Log) {
		_, err := s.log.Read(s.ctx, id, &session.ReadOptions{After: -1})
		check(err, "read", id)
		_, err = s.log.Append(s.ctx, id, userTexts("\xff"), nil)
		check(err, "append", id)
		for _, op := range writeOps {
			_, err = op.call(s.ctx, s, id, &session.WriteOptions{IfVersion: "nonsense"})
			check(err, strings.ToLower(op.name), id)
			_, err = op.call(s.ctx, s, id, key(strings.Repeat("k", 65)))
			check(err, strings.ToLower(op.name), id)
		}
	}
	if s.catalog != nil && s.opts.has(Catalog) {
		_, err := s.catalog.Info(s.ctx, id)
		check(err, "info", id)
		_, err = s.catalog.Update(s.ctx, id, func(*session.Meta) error { return nil })
		check(err, "update", id)
		check(s.catalog.Delete(s.ctx, id, key("k")), "delete", id)
		check(s.catalog.Delete(s.ctx, id, &session.WriteOptions{IfVersion: "nonsense"}), "delete", id)
	}
	if s.locker != nil && s.opts.has(Locker) {
		s.lock(tb, id, nil)
		_, err := s.locker.Lock(s.ctx, id, noWait)
		check(err, "lock", id)
	}
}

func errorsShowNoContent(tb testing.TB, s *subject) {
	s.save(tb, id, secret)
	check := func(err error, what string) {
		tb.Helper()
		if err == nil {
			tb.Errorf("%s: no error", what)
		} else if strings.Contains(err.Error(), secret) {
			tb.Errorf("%s: error text %q shows content", what, err)
		}
	}
	check(s.store.Save(s.ctx, id, userTexts(secret, secret+"\xff")), "Save of invalid UTF-8")
	check(s.store.Save(s.ctx, id, []session.Message{
		session.NewMessage(session.RoleAssistant, session.ToolUse("1", "t", `{"a": `+secret+`}`)),
	}), "Save of bad input")
	if s.catalog != nil && s.opts.has(Catalog) {
		for _, meta := range []session.Meta{{Title: secret + "\xff"}, {Title: strings.Repeat(secret, 10_000)}, {Labels: map[string]string{secret + "\xff": ""}}} {
			_, err := s.catalog.Update(s.ctx, id, func(m *session.Meta) error { *m = meta; return nil })
			check(err, "Update by a bad Meta")
		}
	}
}
