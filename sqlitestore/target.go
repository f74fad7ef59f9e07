package sqlitestore

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/session"
)

// target is the database that Open was asked for.
type target struct {
	uri    string     // "file:" and a path, escaped
	params url.Values // of the caller
	memory bool
	path   string // of the file, for the checks before it is opened
}

// memories numbers the in-memory databases of this process.
var memories atomic.Int64

func parseTarget(file string) (target, error) {
	if file == "" {
		return target{}, fmt.Errorf("%w: no file", session.ErrInvalidOption)
	}
	t := target{path: file, params: url.Values{}}
	if rest, ok := strings.CutPrefix(file, "file:"); ok {
		rest, _, _ = strings.Cut(rest, "#")
		escaped, query, _ := strings.Cut(rest, "?")
		var err error
		if t.params, err = url.ParseQuery(query); err != nil {
			return target{}, fmt.Errorf("%w: the query of the DSN: %w", session.ErrInvalidOption, err)
		}
		if err := t.dropJournalMode(); err != nil {
			return target{}, err
		}
		if rest, ok := strings.CutPrefix(escaped, "//"); ok {
			host, path, _ := strings.Cut(rest, "/")
			if host != "" && host != "localhost" {
				return target{}, fmt.Errorf("%w: a file: DSN with a host", session.ErrInvalidOption)
			}
			escaped = "/" + path
		}
		if t.path, err = url.PathUnescape(escaped); err != nil {
			return target{}, fmt.Errorf("%w: the path of the DSN: %w", session.ErrInvalidOption, err)
		}
	}
	if t.path == ":memory:" || t.params.Get("mode") == "memory" {
		t.memory = true
		t.path = ""
		t.uri = fmt.Sprintf("file:/sqlitestore-%d", memories.Add(1))
		t.params.Del("mode")
		t.params.Del("cache")
		t.params.Set("vfs", "memdb")
		return t, nil
	}
	switch mode := t.params.Get("mode"); {
	case mode == "ro" || t.params.Has("immutable"):
		return target{}, fmt.Errorf("%w: a read-only database can't be a store", session.ErrInvalidOption)
	case t.path == "":
		return target{}, fmt.Errorf("%w: no file", session.ErrInvalidOption)
	}
	path := filepath.ToSlash(t.path)
	if filepath.VolumeName(t.path) != "" && !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	if t.uri = "file:"; strings.HasPrefix(path, "/") {
		t.uri = "file://" // and no host, or a path that begins with two slashes would be one
	}
	t.uri += (&url.URL{Path: path}).EscapedPath()
	return t, nil
}

// dsn returns the name of a connection.
func (t target) dsn() string {
	if len(t.params) == 0 {
		return t.uri
	}
	return t.uri + "?" + t.params.Encode()
}

// dropJournalMode removes the journal mode from a DSN, where it often stands:
// set as early as that it would convert a database that turns out to be
// somebody else's. Open sets it later; another than WAL is an error.
func (t target) dropJournalMode() error {
	var modes []string
	for _, name := range []string{"_journal_mode", "_journal"} {
		modes = append(modes, t.params[name]...)
		t.params.Del(name)
	}
	pragmas := t.params["_pragma"]
	t.params["_pragma"] = slices.DeleteFunc(pragmas, func(p string) bool {
		name := strings.TrimLeft(strings.ToLower(p), " ")
		rest, ok := strings.CutPrefix(name, "journal_mode")
		if ok {
			modes = append(modes, strings.Trim(rest, " ='\"();"))
		}
		return ok
	})
	if i := slices.IndexFunc(modes, func(m string) bool { return !strings.EqualFold(m, "wal") }); i >= 0 {
		return fmt.Errorf("%w: journal mode %q in the DSN; a store uses WAL", session.ErrInvalidOption, modes[i])
	}
	return nil
}

// check finds what is wrong with the file before it is opened. It does not
// open the file itself: closing it again would release the locks that this
// process's other stores have on it.
func (t target) check() error {
	if t.memory {
		return nil
	}
	info, err := os.Stat(t.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(filepath.Dir(t.path)); err != nil {
			return fmt.Errorf("sqlitestore: the folder of the database: %w", err)
		}
		return nil
	case err != nil:
		return fmt.Errorf("sqlitestore: %w", err)
	case info.IsDir():
		return fmt.Errorf("%w: %s is a folder, not a file", session.ErrInvalidOption, t.path)
	}
	return nil
}

// parseURL takes apart what OpenURL accepts.
func parseURL(rawURL string) (file string, opts *Options, err error) {
	scheme, rest, _ := strings.Cut(rawURL, ":")
	if !strings.EqualFold(scheme, "sqlite") {
		return "", nil, fmt.Errorf("%w: not a sqlite: URL", session.ErrInvalidOption)
	}
	path, query, _ := strings.Cut(rest, "?")
	if after, ok := strings.CutPrefix(path, "//"); ok {
		host, _, _ := strings.Cut(after, "/")
		if host != "" && host != "localhost" {
			return "", nil, fmt.Errorf("%w: a sqlite: URL with a host; write sqlite:FILE", session.ErrInvalidOption)
		}
		path = strings.TrimPrefix(after, host)
	}
	if file, err = url.PathUnescape(path); err != nil {
		return "", nil, fmt.Errorf("%w: the path of the URL: %w", session.ErrInvalidOption, err)
	}
	params, err := url.ParseQuery(query)
	if err != nil {
		return "", nil, fmt.Errorf("%w: the query of the URL: %w", session.ErrInvalidOption, err)
	}
	opts = &Options{}
	for name, values := range params {
		set := urlParams[name]
		if set == nil || len(values) != 1 {
			return "", nil, fmt.Errorf("%w: URL parameter %q is unknown or repeated", session.ErrInvalidOption, name)
		}
		if err := set(opts, values[0]); err != nil {
			return "", nil, fmt.Errorf("%w: URL parameter %q: %w", session.ErrInvalidOption, name, err)
		}
	}
	return file, opts, nil
}

var urlParams = map[string]func(o *Options, value string) error{
	"ttl":             func(o *Options, v string) (err error) { o.TTL, err = time.ParseDuration(v); return },
	"busy_timeout":    func(o *Options, v string) (err error) { o.BusyTimeout, err = time.ParseDuration(v); return },
	"max_batch_bytes": func(o *Options, v string) (err error) { o.MaxBatchBytes, err = strconv.Atoi(v); return },
	"readers":         func(o *Options, v string) (err error) { o.Readers, err = strconv.Atoi(v); return },
	"durability": func(o *Options, v string) error {
		switch v {
		case "full":
			o.Durability = DurabilityFull
		case "normal":
			o.Durability = DurabilityNormal
		default:
			return errors.New("want full or normal")
		}
		return nil
	},
}
