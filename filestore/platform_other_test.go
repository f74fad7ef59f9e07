//go:build !unix

package filestore

import (
	"errors"
	"testing"
)

func mkfifo(string) error { return errors.ErrUnsupported }

func withoutPrivileges(t *testing.T, _ string) {
	t.Skip("permissions are of another kind here")
}
