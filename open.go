package session

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
)

// OpenFunc opens a backend from a store URL. Every backend package has one,
// called OpenURL.
type OpenFunc func(ctx context.Context, rawURL string) (Backend, error)

// Openers maps the schemes of store URLs to what opens them, so that an
// application chooses its backend at startup by a string and links only the
// backends that it names:
//
//	stores := session.Openers{"memory": memstore.OpenURL, "sqlite": sqlitestore.OpenURL}
//	store, err := stores.Open(ctx, "sqlite:chat.db")
type Openers map[string]OpenFunc

// Open opens the backend that rawURL names. Errors don't show the URL, which
// may hold a password: ErrInvalidOption for a scheme that is not in o or a URL
// without one, and what the backend returns.
func (o Openers) Open(ctx context.Context, rawURL string) (Backend, error) {
	scheme, _, found := strings.Cut(rawURL, ":")
	if open := o[scheme]; found && open != nil {
		b, err := open(ctx, rawURL)
		return b, wrapError("open", "", err)
	}
	known := strings.Join(slices.Sorted(maps.Keys(o)), ", ")
	return nil, wrapError("open", "", fmt.Errorf("%w: a store URL begins with one of: %s, and a colon", ErrInvalidOption, known))
}

// StoreURL is a store URL taken apart: scheme:name?query.
type StoreURL struct {
	Scheme string
	Name   string // what stands between the colon and the question mark, as it is
	query  url.Values
}

// ParseStoreURL takes a store URL apart. Name is not unescaped: it may be the
// name of a file. Errors are ErrInvalidOption and don't show the URL.
func ParseStoreURL(rawURL string) (*StoreURL, error) {
	scheme, rest, found := strings.Cut(rawURL, ":")
	if !found {
		return nil, fmt.Errorf("%w: store URL without a scheme", ErrInvalidOption)
	}
	name, query, _ := strings.Cut(rest, "?")
	q, err := url.ParseQuery(query)
	if err != nil {
		return nil, fmt.Errorf("%w: the query of a store URL", ErrInvalidOption)
	}
	return &StoreURL{Scheme: scheme, Name: name, query: q}, nil
}

// Take returns a parameter of the query, "" if it is not there.
func (u *StoreURL) Take(name string) string {
	v := u.query.Get(name)
	delete(u.query, name)
	return v
}

// Duration takes a parameter that is a duration such as 24h, 0 if it is not
// there. A malformed or negative one is ErrInvalidOption.
func (u *StoreURL) Duration(name string) (time.Duration, error) {
	v := u.Take(name)
	if v == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(v)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%w: %s is no duration such as 24h", ErrInvalidOption, name)
	}
	return d, nil
}

// Unused returns ErrInvalidOption if there are parameters that nobody took.
func (u *StoreURL) Unused() error {
	if len(u.query) > 0 {
		return fmt.Errorf("%w: unknown parameter %s", ErrInvalidOption, strings.Join(slices.Sorted(maps.Keys(u.query)), ", "))
	}
	return nil
}
