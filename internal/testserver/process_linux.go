package testserver

import (
	"runtime"
	"syscall"
)

// run starts the program and waits for its end. The system kills the program
// when the thread that started it ends, so this goroutine keeps the thread.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.wait(started)
}
