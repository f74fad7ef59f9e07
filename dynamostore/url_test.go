package dynamostore_test

import (
	"errors"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/dynamostore"
	"github.com/holdfast-go/session/internal/dynamotest"
)

// withoutAWS removes this machine's AWS configuration.
func withoutAWS(t *testing.T) {
	for _, name := range os.Environ() {
		if name, _, _ := strings.Cut(name, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
			os.Unsetenv(name)
		}
	}
	t.Setenv("AWS_CONFIG_FILE", os.DevNull)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", os.DevNull)
}

func withCredentials(t *testing.T) {
	withoutAWS(t)
	t.Setenv("AWS_ACCESS_KEY_ID", "local")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "local")
}

func TestOpenURL(t *testing.T) {
	s := dynamotest.Start(t)
	withCredentials(t)
	stores := session.Openers{"dynamodb": dynamostore.OpenURL}
	table := strings.ToLower(t.Name())
	raw := "dynamodb://" + table + "?endpoint=" + url.QueryEscape(s.Endpoint)
	store, err := stores.Open(t.Context(), raw+"&create=true&prefix=a&ttl=24h&index_every=10s&max_batch_bytes=1000&region=eu-central-1")
	check(t, err)
	add(t, store, "s", "hello")
	if _, err := store.Append(t.Context(), "s", user(strings.Repeat("x", 1000)), nil); !errors.Is(err, session.ErrTooLarge) {
		t.Errorf("Append of more than max_batch_bytes = %v, want ErrTooLarge", err)
	}
	info, err := store.Info(t.Context(), "s")
	check(t, err)
	if got := info.Expires.Sub(info.Updated).Hours(); got != 24 {
		t.Errorf("the session expires after %v hours, want 24", got)
	}
	check(t, store.Close())

	// A server for tests may have a table a region.
	for prefix, want := range map[string]int{"a": 1, "b": 0} {
		store, err := stores.Open(t.Context(), raw+"&region=eu-central-1&prefix="+prefix)
		check(t, err)
		if got := texts(t, store, "s"); len(got) != want {
			t.Errorf("prefix %s: %d messages, want %d", prefix, len(got), want)
		}
		check(t, store.Close())
	}
}

func TestOpenURLErrors(t *testing.T) {
	withCredentials(t)
	for raw, want := range map[string]string{
		"dynamodb:":                            "dynamodb://TABLE",
		"dynamodb://":                          "dynamodb://TABLE",
		"dynamodb://key:secret@table":          "dynamodb://TABLE",
		"sqlite:x":                             "not a dynamodb: URL",
		"dynamodb://t":                         "AWS_REGION",
		"dynamodb://t?region=r&colour=red":     "colour",
		"dynamodb://t?region=r&ttl=1":          "ttl",
		"dynamodb://t?region=r&ttl=-1h":        "ttl",
		"dynamodb://t?region=r&index_every=x":  "index_every",
		"dynamodb://t?max_batch_bytes=-1":      "max_batch_bytes",
		"dynamodb://t?create=perhaps":          "create",
		"dynamodb://t?prefix=a:b":              "KeyPrefix",
		"dynamodb://t?endpoint=127.0.0.1:8000": "endpoint",
		"dynamodb://t?%zz":                     "query",
	} {
		b, err := dynamostore.OpenURL(t.Context(), raw)
		if b != nil || !errors.Is(err, session.ErrInvalidOption) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("OpenURL(%q) = %v, %v, want ErrInvalidOption that says %q", raw, b, err, want)
		}
	}
}

func TestOpenURLWithoutCredentials(t *testing.T) {
	withoutAWS(t)
	b, err := dynamostore.OpenURL(t.Context(), "dynamodb://t?endpoint=http://localhost:8000")
	if b != nil || !errors.Is(err, dynamostore.ErrAccess) || !strings.Contains(err.Error(), "AWS_ACCESS_KEY_ID") {
		t.Errorf("OpenURL without credentials = %v, %v, want ErrAccess that says what to set", b, err)
	}
}
