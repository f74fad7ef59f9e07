package dynamostore

import "github.com/holdfast-go/session"

// NewDriver returns what a Store stores through.
func NewDriver(client API, table string, opts *Options) (session.Driver, error) {
	d, err := newDriver(client, table, opts)
	if err != nil {
		return nil, err
	}
	return d, nil
}
