package storetest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-go/session"
)

// linearCall is what a client asks.
type linearCall struct {
	id, op    string
	add       string // names the messages that it writes
	n         int    // how many they are, or to keep, or to read
	ifVersion session.Version
	key       string
}

// linearResult is what it got.
type linearResult struct {
	version  session.Version
	conflict bool
	history  string // of a read
	total    int
	unknown  string // an error of which this is the name
}

func (c linearCall) writes() bool { return c.op != "read" }

func (c linearCall) texts() []string {
	texts := make([]string, c.n)
	for i := range texts {
		texts[i] = fmt.Sprint(c.add, "#", i)
	}
	return texts
}

func (c linearCall) make(ctx context.Context, log session.Log) (out linearResult, err error) {
	opts := &session.WriteOptions{IfVersion: c.ifVersion, Key: c.key}
	switch c.op {
	case "append":
		out.version, err = log.Append(ctx, c.id, userTexts(c.texts()...), opts)
	case "replace":
		out.version, err = log.Replace(ctx, c.id, userTexts(c.texts()...), opts)
	case "truncate":
		out.version, err = log.Truncate(ctx, c.id, c.n, opts)
	case "read":
		var snap session.Snapshot
		snap, err = log.Read(ctx, c.id, &session.ReadOptions{Last: c.n})
		out = linearResult{version: snap.Version, history: strings.Join(textsOf(snap.Messages), " "), total: snap.Total}
	case "delete":
		err = log.(session.Catalog).Delete(ctx, c.id, opts)
		out.version = session.Absent
	}
	return out, err
}

// String is the call as a failure shows it.
func (c linearCall) String() string {
	s := fmt.Sprintf("%s(%s", c.op, c.id)
	switch c.op {
	case "append", "replace":
		s += fmt.Sprintf(", %q", c.texts())
	case "truncate", "read":
		s += fmt.Sprintf(", %d", c.n)
	}
	if c.ifVersion != "" {
		s += fmt.Sprintf(", if %s", c.ifVersion)
	}
	if c.key != "" {
		s += fmt.Sprintf(", key %s", c.key)
	}
	return s + ")"
}

// String is the result as a failure shows it.
func (r linearResult) String() string {
	switch {
	case r.unknown != "":
		return "error " + r.unknown
	case r.conflict:
		return fmt.Sprintf("conflict, at %s", r.version)
	case r.total > 0:
		return fmt.Sprintf("%s, %d messages: %s", r.version, r.total, r.history)
	}
	return string(r.version)
}

// linearState is a session as the model knows it.
type linearState struct {
	history string // the texts, joined by spaces
	// version is what the write returned or, as long as nobody has seen it,
	// unseen and the name of the error that it returned instead.
	version session.Version
	keys    string // for each key: key, isAt, version, next
}

const (
	unseen = "\x00"
	isAt   = "\x01"
	next   = "\x02"
)

var linearModel = porcupine.Model{
	Init: func() any { return linearState{version: session.Absent} },
	Step: func(state, in, out any) (bool, any) {
		s, c, r := state.(linearState), in.(linearCall), out.(linearResult)
		if r.unknown != "" {
			return true, s.afterError(c, r)
		}
		return s.step(c, r)
	},
}

// step reports whether the call could have returned that, and the state then.
func (s linearState) step(c linearCall, r linearResult) (bool, linearState) {
	if v, ok := s.key(c.key); ok {
		return s.identify(v, r.version, !r.conflict)
	}
	if c.ifVersion != "" && c.ifVersion != s.version {
		return s.identify(s.version, r.version, r.conflict)
	}
	if r.conflict {
		return false, s
	}
	then, wrote := s.apply(c, r.version)
	switch {
	case c.op == "read":
		texts := s.texts()
		last := texts
		if c.n > 0 {
			last = texts[max(0, len(texts)-c.n):]
		}
		return s.identify(s.version, r.version, r.total == len(texts) && r.history == strings.Join(last, " "))
	case c.op == "delete":
		return true, then
	case !wrote:
		return s.identify(s.version, r.version, true)
	}
	return r.version != s.version && r.version != session.Absent, then
}

// afterError returns the state after a call whose error says nothing: if the
// write was never made, it comes last of all, where nobody sees it.
func (s linearState) afterError(c linearCall, r linearResult) linearState {
	_, retry := s.key(c.key)
	if r.unknown == nothing || retry || c.ifVersion != "" && c.ifVersion != s.version {
		return s
	}
	then, _ := s.apply(c, session.Version(unseen+r.unknown))
	return then
}

// apply makes a call, and reports whether it wrote anything.
func (s linearState) apply(c linearCall, v session.Version) (linearState, bool) {
	texts := s.texts()
	switch c.op {
	case "append":
		if c.n == 0 {
			return s, false
		}
		texts = append(texts, c.texts()...)
	case "replace":
		texts = c.texts()
	case "truncate":
		if c.n >= len(texts) {
			return s, false
		}
		texts = texts[:c.n]
	case "delete":
		return linearState{version: session.Absent}, s.version != session.Absent
	default:
		return s, false
	}
	s.history, s.version = strings.Join(texts, " "), v
	if c.key != "" {
		s.keys += c.key + isAt + string(v) + next
	}
	return s, true
}

func (s linearState) texts() []string { return strings.Fields(s.history) }

// key returns the version that the write with a key has led to.
func (s linearState) key(key string) (session.Version, bool) {
	for pair := range strings.SplitSeq(s.keys, next) {
		if k, v, _ := strings.Cut(pair, isAt); k == key && key != "" {
			return session.Version(v), true
		}
	}
	return "", false
}

// identify reports whether ok holds and seen is the version that the state
// knows as known. If that is the name of an error, it is seen from now on.
func (s linearState) identify(known, seen session.Version, ok bool) (bool, linearState) {
	if ok && strings.HasPrefix(string(known), unseen) && seen != session.Absent {
		if s.version == known {
			s.version = seen
		}
		s.keys = strings.ReplaceAll(s.keys, isAt+string(known)+next, isAt+string(seen)+next)
		return true, s
	}
	return ok && known == seen, s
}

// partition divides a history by session.
func partition(history []porcupine.Operation) [][]porcupine.Operation {
	parts := make(map[string][]porcupine.Operation)
	for _, op := range history {
		id := op.Input.(linearCall).id
		parts[id] = append(parts[id], op)
	}
	var all [][]porcupine.Operation
	for _, part := range parts {
		all = append(all, part)
	}
	return all
}

// describeHistory shows calls in the order in which they began.
func describeHistory(history []porcupine.Operation) string {
	slices.SortFunc(history, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	var s strings.Builder
	for _, op := range history {
		fmt.Fprintf(&s, "%9d-%-9d client %d: %v: %v\n", op.Call/1000, op.Return/1000, op.ClientId, op.Input, op.Output)
	}
	return s.String()
}
