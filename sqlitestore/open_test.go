package sqlitestore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-go/session"
)

func open(t *testing.T, file string, opts *Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), file, opts)
	if err != nil {
		t.Fatalf("Open(%q): %v", file, err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func appendText(t *testing.T, s *Store, id, text string) {
	t.Helper()
	if _, err := s.Append(t.Context(), id, []session.Message{session.UserText(text)}, nil); err != nil {
		t.Fatalf("Append(%q): %v", id, err)
	}
}

// rawDB opens a file without this package.
func rawDB(t *testing.T, file string, script ...string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	for _, q := range script {
		if _, err := db.Exec(q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	return db
}

// TestEveryConnectionHasThePragmas is case C25.
func TestEveryConnectionHasThePragmas(t *testing.T) {
	for _, tc := range []struct{ name, file string }{
		{"path", "sessions.db"},
		{"path with special characters", "a b?c#d%41.db"},
		{"DSN", "file:%s"},
		{"DSN with a query", "file:%s?_pragma=mmap_size(65536)&_pragma=busy_timeout(1)&_foreign_keys=0&_pragma=journal_mode(WAL)&_query_only=1&mode=rwc"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "sessions.db")
			file := strings.Replace(tc.file, "%s", path, 1)
			if !strings.HasPrefix(file, "file:") {
				path = filepath.Join(t.TempDir(), tc.file)
				file = path
			}
			s := open(t, file, &Options{Readers: 8})
			want := map[string]int64{"busy_timeout": 10_000, "foreign_keys": 1, "synchronous": 2, "query_only": 1}
			for _, replaced := range []bool{false, true} {
				if replaced {
					s.driver.readers.SetConnMaxLifetime(time.Nanosecond)
				}
				var conns []*sql.Conn
				for i := range 8 {
					c, err := s.driver.readers.Conn(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					conns = append(conns, c)
					for pragma, value := range want {
						var got int64
						if err := c.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got); err != nil || got != value {
							t.Errorf("connection %d (replaced: %v): PRAGMA %s = %d, %v, want %d", i, replaced, pragma, got, err, value)
						}
					}
				}
				for _, c := range conns {
					c.Close()
				}
			}
			s.driver.readers.SetConnMaxLifetime(0)
			for pragma, value := range map[string]int64{"busy_timeout": 10, "foreign_keys": 1, "synchronous": 2, "query_only": 0} {
				if got := writerPragma(t, s.driver, pragma); got != value {
					t.Errorf("the writer's PRAGMA %s = %d, want %d", pragma, got, value)
				}
			}
			if strings.Contains(tc.file, "mmap_size") {
				if got := writerPragma(t, s.driver, "mmap_size"); got != 65536 {
					t.Errorf("mmap_size = %d, want the DSN's 65536", got)
				}
			}

			for i := range 8 {
				appendText(t, s, fmt.Sprint("s", i), "x")
				if _, err := s.Append(t.Context(), fmt.Sprint("s", i), slices.Repeat([]session.Message{session.UserText("y")}, 9), nil); err != nil {
					t.Fatal(err)
				}
			}
			var wg sync.WaitGroup
			for i := range 8 {
				wg.Go(func() {
					if err := s.Delete(t.Context(), fmt.Sprint("s", i), nil); err != nil {
						t.Errorf("Delete: %v", err)
					}
				})
			}
			wg.Wait()
			var rows int
			if err := s.driver.readers.QueryRow("SELECT count(*) FROM messages").Scan(&rows); err != nil || rows != 0 {
				t.Errorf("%d message rows, %v, want 0", rows, err)
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("the database is not where it should be: %v", err)
			}
		})
	}
}

func writerPragma(t *testing.T, d *database, pragma string) (value int64) {
	t.Helper()
	err := d.writer.submit(t.Context(), 0, func(ctx context.Context, w *writer) error {
		return w.conn.queryRow(ctx, "PRAGMA "+pragma, func(v []driver.Value) error { value, _ = v[0].(int64); return nil })
	})
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// TestMemoryIsOneDatabase uses a database in memory from several goroutines,
// and two Stores that must not share it.
func TestMemoryIsOneDatabase(t *testing.T) {
	for _, name := range []string{":memory:", "file::memory:", "file:x?mode=memory&cache=shared"} {
		s, other := open(t, name, nil), open(t, name, nil)
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				for n := range 50 {
					if _, err := s.Append(t.Context(), "s", []session.Message{session.UserText(fmt.Sprint(g, n))}, nil); err != nil {
						t.Errorf("%s: Append: %v", name, err)
					}
					if got, err := s.Load(t.Context(), "s"); err != nil || len(got) <= n {
						t.Errorf("%s: Load = %d messages, %v, want more than %d", name, len(got), err, n)
					}
				}
			})
		}
		wg.Wait()
		if got, err := s.Load(t.Context(), "s"); err != nil || len(got) != 200 {
			t.Errorf("%s: Load = %d messages, %v, want 200", name, len(got), err)
		}
		if got, err := other.Load(t.Context(), "s"); err != nil || len(got) != 0 {
			t.Errorf("%s: another Store loads %d messages, %v, want 0", name, len(got), err)
		}
	}
}

// TestOpenRefuses opens what can't be a store, which must stay as it is.
func TestOpenRefuses(t *testing.T) {
	ours := func(t *testing.T, file string, script ...string) {
		s, err := Open(t.Context(), file, nil)
		if err != nil {
			t.Fatal(err)
		}
		appendText(t, s, "s", "x")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		rawDB(t, file, script...).Close()
	}
	write := func(content string) func(*testing.T, string) {
		return func(t *testing.T, file string) {
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, tc := range []struct {
		name  string
		setUp func(t *testing.T, file string)
		dsn   string // with %s for the file
		want  error  // nil: any
	}{
		{"text", write(strings.Repeat("not a database\n", 500)), "", session.ErrCorrupt},
		{"short text", write("hello"), "", session.ErrCorrupt},
		{"damaged header", write("SQLite format 3\x00" + strings.Repeat("\xff", 5000)), "", session.ErrCorrupt},
		{"directory", func(t *testing.T, file string) {
			if err := os.Mkdir(file, 0o700); err != nil {
				t.Fatal(err)
			}
		}, "", session.ErrInvalidOption},
		{"no parent", nil, "%s/none/x.db", fs.ErrNotExist},
		{"read-only", func(t *testing.T, file string) { ours(t, file) }, "file:%s?mode=ro", session.ErrInvalidOption},
		{"immutable", func(t *testing.T, file string) { ours(t, file) }, "file:%s?immutable=1", session.ErrInvalidOption},
		{"no such file", nil, "file:%s?mode=rw", nil},
		{"journal mode", nil, "file:%s?_journal_mode=DELETE", session.ErrInvalidOption},
		{"journal mode as a pragma", nil, "file:%s?_pragma=Journal_Mode%3DOFF", session.ErrInvalidOption},
		{"host", nil, "file://host%s", session.ErrInvalidOption},
		{"no file", nil, "", session.ErrInvalidOption},
		{"newer version", func(t *testing.T, file string) { ours(t, file, "PRAGMA user_version = 2") }, "", session.ErrNewerFormat},
		{"version zero", func(t *testing.T, file string) { ours(t, file, "PRAGMA user_version = 0") }, "", session.ErrCorrupt},
		{"other application", func(t *testing.T, file string) {
			rawDB(t, file, "PRAGMA application_id = 7", "CREATE TABLE t (x)").Close()
		}, "", nil},
		{"other tables", func(t *testing.T, file string) { rawDB(t, file, "CREATE TABLE sessions (x)").Close() }, "", nil},
		{"other version", func(t *testing.T, file string) { rawDB(t, file, "PRAGMA user_version = 1").Close() }, "", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "x.db")
			if tc.setUp != nil {
				tc.setUp(t, file)
			}
			before := contents(t, dir)
			name := file
			switch {
			case tc.name == "no file":
				name = ""
			case tc.dsn != "":
				name = strings.Replace(tc.dsn, "%s", file, 1)
			}
			s, err := Open(t.Context(), name, nil)
			if err == nil {
				s.Close()
			}
			var e *session.Error
			if err == nil || tc.want != nil && !errors.Is(err, tc.want) || !errors.As(err, &e) {
				t.Errorf("Open(%q) = %v, want a *session.Error that is %v", name, err, tc.want)
			}
			t.Log(err)
			if diff := cmp.Diff(before, contents(t, dir)); diff != "" {
				t.Errorf("Open(%q) changed files (-before +after):\n%s", name, diff)
			}
		})
	}
}

// contents returns the files of a folder.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			files[e.Name()] = "directory"
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(data)
	}
	return files
}

// TestOpenAtOnce lets several open a file that none has created.
func TestOpenAtOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.db")
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			s, err := Open(t.Context(), file, nil)
			if err != nil {
				t.Errorf("Open: %v", err)
				return
			}
			if _, err := s.Append(t.Context(), "s", []session.Message{session.UserText(fmt.Sprint(i))}, nil); err != nil {
				t.Errorf("Append: %v", err)
			}
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
	wg.Wait()
	s := open(t, file, nil)
	if got, err := s.Load(t.Context(), "s"); err != nil || len(got) != 6 {
		t.Errorf("Load = %d messages, %v, want 6", len(got), err)
	}
}

// TestCloseLeavesOneFile checks that the WAL is gone after Close.
func TestCloseLeavesOneFile(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(t.Context(), filepath.Join(dir, "x.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	appendText(t, s, "s", "x")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if files := contents(t, dir); len(files) != 1 {
		t.Errorf("files after Close: %d, want x.db alone", len(files))
	}
}

func TestOpenURL(t *testing.T) {
	t.Chdir(t.TempDir())
	abs, err := filepath.Abs("abs.db")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		url  string
		file string // that must exist; empty: none
		want error
	}{
		{"sqlite::memory:", "", nil},
		{"sqlite:rel.db", "rel.db", nil},
		{"sqlite:a%20b%3Fc.db", "a b?c.db", nil},
		{"sqlite:" + abs, "abs.db", nil},
		{"sqlite://" + filepath.ToSlash(abs) + "2", "abs.db2", nil},
		{"SQLite:opts.db?ttl=24h&durability=normal&readers=2&busy_timeout=1s&max_batch_bytes=1000", "opts.db", nil},
		{"sqlite:x.db?durability=none", "", session.ErrInvalidOption},
		{"sqlite:x.db?ttl=1", "", session.ErrInvalidOption},
		{"sqlite:x.db?ttl=-1h", "", session.ErrInvalidOption},
		{"sqlite:x.db?tll=1h", "", session.ErrInvalidOption},
		{"sqlite:x.db?ttl=1h&ttl=2h", "", session.ErrInvalidOption},
		{"sqlite://host/x.db", "", session.ErrInvalidOption},
		{"sqlite:", "", session.ErrInvalidOption},
		{"redis:x", "", session.ErrInvalidOption},
	} {
		b, err := OpenURL(t.Context(), tc.url)
		if !errors.Is(err, tc.want) {
			t.Errorf("OpenURL(%q) = %v, want %v", tc.url, err, tc.want)
		}
		if err != nil {
			if b != nil {
				t.Errorf("OpenURL(%q) returned a Backend and an error", tc.url)
			}
			continue
		}
		if tc.file != "" {
			if _, err := os.Stat(tc.file); err != nil {
				t.Errorf("OpenURL(%q): %v", tc.url, err)
			}
		}
		if strings.Contains(tc.url, "ttl") {
			o := b.(*Store).driver.opts
			if o.TTL != 24*time.Hour || o.Durability != DurabilityNormal || o.Readers != 2 || o.BusyTimeout != time.Second || o.MaxBatchBytes != 1000 {
				t.Errorf("OpenURL(%q): options %+v", tc.url, o)
			}
		}
		if err := b.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
}

// TestHistoryView runs the query that the package comment promises.
func TestHistoryView(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.db")
	s := open(t, file, nil)
	messages := []session.Message{
		session.UserText("hi"),
		session.NewMessage(session.RoleAssistant, session.Text("a"), session.ToolUse("t", "f", "{}"), session.Text("b")),
	}
	if err := s.Save(t.Context(), "user-1/s1", messages); err != nil {
		t.Fatal(err)
	}
	rows, err := rawDB(t, file).Query("SELECT position, role, text FROM history WHERE session = 'user-1/s1'")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var got []string
	for rows.Next() {
		var position int
		var role, text string
		if err := rows.Scan(&position, &role, &text); err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(position, role, text))
	}
	if want := []string{"1userhi", "2assistanta\nb"}; !slices.Equal(got, want) {
		t.Errorf("history = %q, want %q", got, want)
	}
}
