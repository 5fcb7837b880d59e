// Package sandbox starts processes that reach less of the machine than who starts them.
//
//	Spec ─► Run: a thread of its own ─► mounts, no new privileges, … ─► fork ─► the process
//	                                     └ the thread ends; nothing of it was anybody else's
//
// Everything a thread can be kept from is inherited by what it forks, so nothing is executed in
// between: the thread takes a mount namespace of its own, puts an empty file system over what is to
// be hidden and back into it what is to be seen, forks, and is thrown away. What a thread cannot be
// kept from without its whole process – another user – is the fork's (Attr).
//
// Who is not root needs the right to mount for that, which a process has in a user namespace that
// it was born in (InUserNamespace). So the supervisor of a peer that root did not start is born in
// one, where only its user has a name: files of others are shown as nobody's, and what they permit
// is as ever.
//
// Who sees no other processes (Apart) has a Space: a namespace with a first process, this program,
// which the thread goes into for what it forks.
//
// What a thread does not hand on is done to the process itself: it starts in a control group
// (Groups), and is stopped at its first instruction until it has its limits (Fork).
//
// What holds here is found by trial (Try), never by asking for a version: containers, policies of a
// distribution and limits on namespaces say no in more ways than can be listed. Where a Spec cannot
// be carried out, Run says so and nothing is started.
//
// The package uses the standard library only, as it is in the supervisor (package supervise).
package sandbox
