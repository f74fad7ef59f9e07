//go:build !linux

package testserver

// run starts the program and waits for its end.
func (p *Process) run(started chan<- error) { p.wait(started) }
