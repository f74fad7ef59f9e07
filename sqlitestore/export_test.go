package sqlitestore

import (
	"context"

	"github.com/holdfast-go/session"
)

// OpenDriver opens what a Store stores through.
func OpenDriver(ctx context.Context, file string, opts *Options) (session.Driver, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	return openDatabase(ctx, file, o)
}
