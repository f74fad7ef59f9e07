package filestore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/session"
)

// Meta is what meta.json says for people and front ends: what a session is, and
// what it was compacted from or into. Times are in UTC.
type Meta struct {
	Name        string    `json:"name"`
	Created     time.Time `json:"created"`
	Updated     time.Time `json:"updated"`
	Workspace   string    `json:"workspace,omitempty"`
	Model       string    `json:"model,omitempty"`
	FirstPrompt string    `json:"first_prompt,omitempty"`
	// Title is what the session is called in lists; Name stays the label of
	// its directory.
	Title string `json:"title,omitempty"`
	// Cost is what the session's turns have cost so far, in the caller's
	// currency; zero if nobody says.
	Cost        float64 `json:"cost,omitempty"`
	Summary     string  `json:"summary,omitempty"`
	Parent      string  `json:"parent,omitempty"`       // the session this one was forked or compacted from
	SucceededBy string  `json:"succeeded_by,omitempty"` // the session that continues this one

	SummaryThrough int               `json:"summary_through,omitempty"` // how many messages Summary covers
	SummaryHash    string            `json:"summary_hash,omitempty"`
	Labels         map[string]string `json:"labels,omitempty"`
}

// sessionMeta returns the part of m that a session.Meta has. It shares Labels.
func (m *Meta) sessionMeta() session.Meta {
	return session.Meta{
		Title: m.Title, FirstPrompt: m.FirstPrompt, Model: m.Model, Workspace: m.Workspace,
		Parent: m.Parent, SucceededBy: m.SucceededBy, Cost: m.Cost,
		Summary: m.Summary, SummaryThrough: m.SummaryThrough, SummaryHash: m.SummaryHash, Labels: m.Labels,
	}
}

// setSessionMeta sets that part. It shares Labels.
func (m *Meta) setSessionMeta(s session.Meta) {
	m.Title, m.FirstPrompt, m.Model, m.Workspace = s.Title, s.FirstPrompt, s.Model, s.Workspace
	m.Parent, m.SucceededBy, m.Cost = s.Parent, s.SucceededBy, s.Cost
	m.Summary, m.SummaryThrough, m.SummaryHash, m.Labels = s.Summary, s.SummaryThrough, s.SummaryHash, s.Labels
}

func (m *Meta) clone() *Meta {
	c := *m
	c.Labels = maps.Clone(m.Labels)
	return &c
}

// metaFile is meta.json: one JSON object with the members of Meta and, behind
// them,
//
//	format     the version of the directory's format, 1
//	id         the session's ID, if the directory's name doesn't tell it
//	meta_text  the Head's Meta, if it isn't just what the members say; JSON, as a string
//	head       the head of the history at some earlier time; see checkpoint.go
//
// and members that this version does not know, which are kept.
type metaFile struct {
	Meta
	Format   int             `json:"format,omitempty"`
	ID       string          `json:"id,omitempty"`
	MetaText string          `json:"meta_text,omitempty"`
	Head     json.RawMessage `json:"head,omitempty"`

	unknown []byte // members, separated by commas
}

const (
	metaName   = "meta.json"
	metaFormat = 1

	// maxMetaFile bounds what is read of a meta.json: more than a Meta of
	// session.MaxMetaBytes, twice and escaped, and a head.
	maxMetaFile = 4 << 20
)

// readMeta reads the meta.json of a directory. The error is fs.ErrNotExist if
// there is none, ErrCorrupt if it is damaged, ErrNewerFormat, or why it can't
// be read.
func readMeta(root *os.Root, dir string) (*metaFile, error) {
	name := path.Join(dir, metaName)
	data, err := readRegular(root, name, maxMetaFile)
	if err != nil {
		return nil, err
	}
	m, err := decodeMeta(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}

// readRegular reads a file that must be a regular one of at most limit bytes,
// else ErrCorrupt. It never waits at a pipe.
func readRegular(root *os.Root, name string, limit int64) ([]byte, error) {
	info, err := root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is no regular file", session.ErrCorrupt, name)
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%w: %s has more than %d bytes", session.ErrCorrupt, name, limit)
	}
	return data, err
}

func decodeMeta(data []byte) (*metaFile, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil || members == nil {
		return nil, fmt.Errorf("%w: %d bytes that are no JSON object", session.ErrCorrupt, len(data))
	}
	var format struct{ Format int }
	if err := json.Unmarshal(data, &format); err == nil && format.Format > metaFormat {
		return nil, fmt.Errorf("%w: format %d, this one knows %d", session.ErrNewerFormat, format.Format, metaFormat)
	}
	var m metaFile
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, fmt.Errorf("%w: a member of another type", session.ErrCorrupt) // its text would quote the value
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if !knownMembers[strings.ToLower(name)] { // encoding/json takes them in any case
			m.unknown = appendMember(m.unknown, name, members[name])
		}
	}
	return &m, nil
}

// knownMembers are the names of metaFile's members.
var knownMembers = func() map[string]bool {
	known := make(map[string]bool)
	for _, name := range []string{
		"name", "created", "updated", "workspace", "model", "first_prompt", "title", "cost", "summary", "parent",
		"succeeded_by", "summary_through", "summary_hash", "labels", "format", "id", "meta_text", "head",
	} {
		known[name] = true
	}
	return known
}()

func appendMember(dst []byte, name string, value []byte) []byte {
	if len(dst) > 0 {
		dst = append(dst, ',')
	}
	key, _ := json.Marshal(name) // a string always can be
	dst = append(append(dst, key...), ':')
	return append(dst, value...)
}

// encode returns the content of meta.json, indented.
func (m *metaFile) encode() ([]byte, error) {
	var known bytes.Buffer
	e := json.NewEncoder(&known)
	e.SetEscapeHTML(false)
	m.Format = metaFormat
	if err := e.Encode(m); err != nil {
		return nil, fmt.Errorf("%w: meta: %w", session.ErrInvalidOption, err)
	}
	all := bytes.TrimSuffix(known.Bytes(), []byte("}\n"))
	if len(m.unknown) > 0 {
		all = append(append(all, ','), m.unknown...)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, append(all, '}'), "", "  "); err != nil {
		return nil, fmt.Errorf("%w: meta: %w", session.ErrInvalidOption, err)
	}
	indented.WriteByte('\n')
	return indented.Bytes(), nil
}

// headMeta returns the Meta of the session's Head, nil if it has none.
func (m *metaFile) headMeta() ([]byte, error) {
	if m.MetaText != "" {
		var s session.Meta
		if json.Unmarshal([]byte(m.MetaText), &s) == nil && equalMeta(s, m.sessionMeta()) {
			return []byte(m.MetaText), nil
		}
	}
	return shownMeta(m.sessionMeta())
}

// shownMeta returns the Head's Meta as Meta's own members tell it.
func shownMeta(s session.Meta) ([]byte, error) {
	if equalMeta(s, session.Meta{}) {
		return nil, nil
	}
	return session.EncodeMeta(s)
}

// setHeadMeta makes b the Meta of the session's Head.
func (m *metaFile) setHeadMeta(b []byte) error {
	var s session.Meta
	if len(b) > 0 {
		if err := json.Unmarshal(b, &s); err != nil {
			return fmt.Errorf("%w: Meta is no JSON object", session.ErrInvalidOption)
		}
	}
	m.setSessionMeta(s)
	m.MetaText = ""
	if shown, err := shownMeta(s); err != nil || !bytes.Equal(shown, b) {
		m.MetaText = string(b)
	}
	return nil
}

func equalMeta(a, b session.Meta) bool {
	if !maps.Equal(a.Labels, b.Labels) {
		return false
	}
	return a.Title == b.Title && a.FirstPrompt == b.FirstPrompt && a.Model == b.Model && a.Workspace == b.Workspace &&
		a.Parent == b.Parent && a.SucceededBy == b.SucceededBy && a.Cost == b.Cost &&
		a.Summary == b.Summary && a.SummaryThrough == b.SummaryThrough && a.SummaryHash == b.SummaryHash
}

// writeMeta replaces the meta.json of a directory. Whoever reads, changes and
// writes it holds the lock of the history meanwhile, and puts one that is
// damaged aside first.
func writeMeta(root *os.Root, dir string, m *metaFile, sync bool) error {
	data, err := m.encode()
	if err != nil {
		return err
	}
	return writeFileAtomic(root, path.Join(dir, metaName), data, sync)
}

// putMetaAside gives a damaged meta.json a name under which it is kept, and
// returns it.
func putMetaAside(root *os.Root, dir string, now time.Time) (string, error) {
	stamp := now.UTC().Format("20060102T150405.000000000Z")
	for n := 0; ; n++ {
		aside := path.Join(dir, fmt.Sprintf("meta.damaged-%s.json", stamp))
		if n > 0 {
			aside = path.Join(dir, fmt.Sprintf("meta.damaged-%s-%d.json", stamp, n))
		}
		if _, err := root.Lstat(aside); err == nil {
			continue
		} else if !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
		return aside, root.Rename(path.Join(dir, metaName), aside)
	}
}
