package filestore

// A process is told apart from a later one with the same number by its birth: a
// text that says when it was started, as the operating system counts, and where
// that count begins anew with each boot, in which. Births are compared and not
// read. processBirth returns the birth of a process that runs, and false if none
// does; one that has ended and whose parent has not asked for it yet does not
// run. An empty birth: this system does not tell.
