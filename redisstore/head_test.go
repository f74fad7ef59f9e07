package redisstore

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-go/session"
)

// headText returns a head as the commit script writes it.
func headText(h *session.Head, flags string, listed int64) string {
	return "1\n" + escapeLine.Replace(h.Rev) + "\n3\n" + flags + "\n" + string(appendRest(nil, h, listed))
}

func TestHeadRoundTrip(t *testing.T) {
	for _, want := range []session.Head{
		{Rev: "1-a", Base: "1-a", Count: 3, Updated: time.Unix(1, 2).UTC(), Record: []byte{0, '\n', 0xff}},
		{Rev: "1\n%0A", Base: "%\n\n", Count: 3, Updated: time.Unix(-1, 2).UTC(), Expires: time.Unix(5, 6).UTC(), Record: []byte("\n")},
	} {
		got, listed, err := decodeHead(headText(&want, "00", 42))
		if diff := cmp.Diff(want, got); err != nil || listed != 42 || diff != "" {
			t.Errorf("decodeHead = listed %d, error %v, and differs (-want +got):\n%s", listed, err, diff)
		}
	}
}

func TestHeadThatIsNone(t *testing.T) {
	whole := headText(&session.Head{Rev: "1-a", Base: "1-a", Updated: time.Unix(1, 2)}, "00", 42)
	for _, text := range []string{
		"x", "\n", "0" + whole[1:], "-1" + whole[1:], strings.Replace(whole, "00", "0", 1),
		strings.Replace(whole, "\n3\n", "\nthree\n", 1), strings.Replace(whole, "42", "", 1), whole[:len(whole)-1],
	} {
		if h, _, err := decodeHead(text); !errors.Is(err, errNoHead) {
			t.Errorf("decodeHead(%q) = %+v, %v, want errNoHead", text, h, err)
		}
	}
	if _, _, err := decodeHead("2" + whole[1:]); !errors.Is(err, errNewer) {
		t.Errorf("decodeHead of a newer format: error = %v, want errNewer", err)
	}
}

func FuzzHead(f *testing.F) {
	f.Add(headText(&session.Head{Rev: "1-a", Base: "1-a", Updated: time.Unix(1, 2)}, "11", 42))
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		h, listed, err := decodeHead(text)
		if err != nil || h.Rev == "" {
			return
		}
		rest := string(appendRest(nil, &h, listed))
		lines := strings.SplitN(text, "\n", 5)
		again, listedAgain, err := decodeHead(strings.Join(lines[:4], "\n") + "\n" + rest)
		if diff := cmp.Diff(h, again); err != nil || listed != listedAgain || diff != "" {
			t.Errorf("a head that was read and written is another (error %v):\n%s", err, diff)
		}
	})
}

func TestKeysHoldTheIDInOneTag(t *testing.T) {
	d := newDriver(nil, Options{Prefix: "p:"}, nil)
	tags := make(map[string]string)
	for _, id := range []string{"s-204", "a{b}c", "{}x", "}{", "{", "}", "%7D", "%257D", "a", "A", strings.Repeat("}", 512), "\x00lease"} {
		keys := []string{d.headKey(id), d.messagesKey(id), d.metaKey(id), d.commitsKey(id)}
		var tag string
		for _, k := range keys {
			_, after, _ := strings.Cut(k, "{")
			in, _, found := strings.Cut(after, "}")
			if !found || in == "" || tag != "" && in != tag {
				t.Errorf("key %q of %q has the hash tag %q, want one that all its keys have", k, id, in)
			}
			tag = in
		}
		if other, taken := tags[tag]; taken {
			t.Errorf("%q and %q share the hash tag %q", id, other, tag)
		}
		tags[tag] = id
	}
}

func TestFolderOf(t *testing.T) {
	deep := strings.Repeat("a/", 20)
	for prefix, want := range map[string]string{"": "", "a": "", "a/": "a/", "a/b": "a/", "a/b/c": "a/b/", "/": "/", deep: deep[:2*indexedFolders]} {
		if got := folderOf(prefix); got != want {
			t.Errorf("folderOf(%q) = %q, want %q", prefix, got, want)
		}
	}
	d := newDriver(nil, Options{Prefix: "p:"}, nil)
	want := []string{"p:{}:all", "p:{a/}:in", "p:{a/b/}:in"}
	if diff := cmp.Diff(want, d.indexKeys("a/b/c")); diff != "" {
		t.Errorf("indexKeys (-want +got):\n%s", diff)
	}
	if keys := d.indexKeys(deep + "s"); len(keys) != 1+indexedFolders {
		t.Errorf("a session %d folders deep is in %d indexes, want %d", 20, len(keys), 1+indexedFolders)
	}
	if keys := d.indexKeys("\x00a/b"); keys != nil {
		t.Errorf("a hidden session is in the indexes %q", keys)
	}
}
