// Package caller tells which process is at the other end of a unix socket.
//
// The kernel says who connected (SO_PEERCRED): the process and its user as they were then. The
// number may be another process's later, so a descriptor of the process is taken with it where the
// kernel gives one (SO_PEERPIDFD, Linux 6.5); Gone tells whether what was read of the number since
// may be of somebody else.
//
// Only Linux tells. Elsewhere Of fails with errors.ErrUnsupported.
package caller
