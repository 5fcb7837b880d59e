// Package caller tells which process is at the other end of a unix socket, and of which task it is.
//
// The kernel says who connected (SO_PEERCRED): the process and its user as they were then. The
// number may be another process's later, so a descriptor of the process is taken with it where the
// kernel gives one (SO_PEERPIDFD, Linux 6.5); Gone tells whether what was read of the number since
// may be of somebody else.
//
// A Listener has the local API know it: a process of a task asks in the name of who signed what the
// task runs. What cannot be told counts as inside a task.
//
// Only Linux tells. Elsewhere Of fails with errors.ErrUnsupported, and the Listener knows nobody.
package caller
