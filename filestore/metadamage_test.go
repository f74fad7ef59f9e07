package filestore

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-go/session"
)

// TestDamagedMeta checks that a meta.json that can't be read costs neither the
// history nor the other sessions, and is kept.
func TestDamagedMeta(t *testing.T) {
	const history = `{"role":"user","content":[{"type":"text","text":"one"}]}
{"role":"assistant","content":[{"type":"text","text":"two"}]}
`
	nuls, err := base64.StdEncoding.DecodeString("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA==")
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		meta, history string
		damaged       bool
		want          []string
	}{
		"not JSON":         {"{bad json", history, true, []string{"one", "two"}},
		"empty":            {"", history, true, []string{"one", "two"}},
		"NULs":             {string(nuls), history, true, []string{"one", "two"}},
		"an empty history": {"{}", "", false, nil},
		"none":             {"{}", history, false, []string{"one", "two"}},
	} {
		t.Run(what, func(t *testing.T) {
			var damage []Damage
			m := newManagerWith(t, &Options{OnDamage: func(d Damage) { damage = append(damage, d) }})
			say(t, openSession(t, m, "other"), "hi")
			dir := filepath.Join(m.BaseDir(), "demo")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			for name, text := range map[string]string{historyName: c.history, metaName: c.meta, tempPrefix + "meta": "{"} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			list, err := m.ListSessions()
			names := make([]string, len(list))
			for i, s := range list {
				names[i] = s.Name
			}
			slices.Sort(names)
			want := []string{"demo", "other"}
			if c.history == "" {
				want = want[1:]
			}
			if err != nil || !cmp.Equal(names, want) {
				t.Errorf("ListSessions = %v, %v, want %v", names, err, want)
			}
			s := openSession(t, m, "demo")
			if got := textsOf(load(t, s)); !cmp.Equal(got, c.want) {
				t.Errorf("Load = %v, want %v", got, c.want)
			}
			told := slices.ContainsFunc(damage, func(d Damage) bool {
				return d.File == "demo/"+metaName && errors.Is(d.Err, session.ErrCorrupt)
			})
			if told != c.damaged {
				t.Errorf("OnDamage was told of %v, want meta.json %v", damage, c.damaged)
			}
			say(t, s, "three")
			s.Meta().Title = "t"
			if err := s.SaveMeta(); err != nil {
				t.Fatal(err)
			}
			if got := textsOf(load(t, openSession(t, m, "demo"))); !cmp.Equal(got, append(c.want, "three")) {
				t.Errorf("Load after an append = %v, want %v and three", got, c.want)
			}
			aside, err := filepath.Glob(filepath.Join(dir, "meta.damaged-*.json"))
			if err != nil || (len(aside) == 1) != c.damaged {
				t.Fatalf("aside: %v, %v, want the damaged file %v", aside, err, c.damaged)
			}
			if c.damaged {
				if kept, err := os.ReadFile(aside[0]); err != nil || string(kept) != c.meta {
					t.Errorf("the damaged file holds %q, %v, want %q", kept, err, c.meta)
				}
			}
			if meta, err := readMeta(m.store.root, "demo"); err != nil || meta.Title != "t" {
				t.Errorf("the new meta.json is %+v, %v", meta, err)
			}
		})
	}
}

// TestMetaAfterKill kills a process that updates its Meta without end, and
// looks whether meta.json is whole each time.
func TestMetaAfterKill(t *testing.T) {
	rounds := 40
	if testing.Short() {
		rounds = 5
	}
	m := newManager(t)
	say(t, openSession(t, m, "demo"), "hi")
	for i := range rounds {
		cmd, _, _ := startAgent(t, "meta", m)
		time.Sleep(time.Duration(i*137%1000) * time.Microsecond) // somewhere in the middle
		kill(cmd)
		meta, err := readMeta(m.store.root, "demo")
		if err != nil || !strings.HasPrefix(meta.Title, "title ") || !strings.HasSuffix(meta.Title, strings.Repeat("x", 1000)) {
			t.Fatalf("after kill %d meta.json is %+v, %v, want it whole", i, meta, err)
		}
		if title := m.SessionTitle("demo"); !strings.HasPrefix(title, "title ") {
			t.Fatalf("after kill %d the title is %.20q", i, title)
		}
	}
	openSession(t, m, "demo")
	if list, err := m.ListSessions(); err != nil || len(list) != 1 {
		t.Errorf("ListSessions = %v, %v, want one session", list, err)
	}
}

func metaAgent(m *Manager, _ []string) error {
	s, err := m.Open("demo")
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		s.Meta().Title = fmt.Sprintf("title %d %s", i, strings.Repeat("x", 1000))
		if err := s.SaveMeta(); err != nil {
			return err
		}
		if i == 0 {
			fmt.Println("started")
		}
	}
}

// TestMetaWithoutHistory opens sessions of which there is but a meta.json.
func TestMetaWithoutHistory(t *testing.T) {
	for what, empty := range map[string]bool{"missing": false, "empty": true} {
		m := newManager(t)
		dir := filepath.Join(m.BaseDir(), "demo")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, metaName), []byte(`{"name":"demo","title":"t","workspace":"/w"}`), 0o600); err != nil {
			t.Fatal(err)
		}
		if empty {
			if err := os.WriteFile(filepath.Join(dir, historyName), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s := openSession(t, m, "demo")
		s.Meta().Model = "m"
		if err := s.SaveMeta(); err != nil {
			t.Fatal(err)
		}
		for _, got := range []*Meta{s.Meta(), m.ReadMeta("demo")} {
			if got == nil || got.Title != "t" || got.Workspace != "/w" || got.Model != "m" {
				t.Errorf("history %s: Meta = %+v, want what meta.json said and the model", what, got)
			}
		}
	}
}

// TestLostHistoryOfCompacted loses the history of a session that another
// continues.
func TestLostHistoryOfCompacted(t *testing.T) {
	m := newManager(t)
	s := openSession(t, m, "demo")
	s.Meta().Title = "t"
	say(t, s, "1", "2")
	if err := s.SaveMeta(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Compact("sum", &CompactOptions{Name: "next"}); err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(s.HistoryPath()); err != nil {
		t.Fatal(err)
	}
	m = managerAt(t, m.BaseDir(), nil)
	if got := m.ReadMeta("demo"); got == nil || got.Title != "t" || got.SucceededBy != "next" {
		t.Errorf("ReadMeta = %+v, want what meta.json says", got)
	}
	if got, err := m.LoadSession("demo"); !errors.Is(err, session.ErrCorrupt) {
		t.Errorf("LoadSession = %v, %v, want ErrCorrupt", got, err)
	}
	if got := openSession(t, m, "demo"); got.Name() != "next" {
		t.Errorf("Open = %q, want what continues it", got.Name())
	}
	list, err := m.ListSessions()
	if i := slices.IndexFunc(list, func(s SessionInfo) bool { return s.Name == "demo" }); err != nil || i < 0 || list[i].Title != "t" || list[i].ModTime.IsZero() {
		t.Errorf("ListSessions = %v, %v, want the damaged one in it", list, err)
	}
}
