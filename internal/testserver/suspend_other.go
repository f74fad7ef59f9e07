//go:build !unix

package testserver

import "errors"

func (p *Process) suspend() error { return errors.ErrUnsupported }
func (p *Process) resume() error  { return errors.ErrUnsupported }
