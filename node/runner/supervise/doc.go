// Package supervise owns the processes of tasks, so that they outlive the peer that started them.
//
//	peer ── Client ──orders──► Engine ──► processes        the supervisor: this same program, in a process
//	             ◄──events───                              and session of its own
//
// A Client starts the supervisor with the first process and lets it go when there has been none for
// a while. When the peer ends – by a signal, by kill -9, for an upgrade – the supervisor and all
// processes go on; the next peer's Client finds it by its socket and takes the processes up again,
// with the exit codes of those that ended meanwhile. The supervisor ends by itself when nothing
// runs and no peer is there.
//
// What is on disk, in the tasks folder:
//
//	.running         one line per process that was begun and whose end the peer has not taken: what is known when the supervisor was killed
//	.ends            ends that no peer was there to hear of
//	.boot            the boot of the machine .running speaks of
//	.supervisor      the lock a supervisor holds as long as it lives
//	.supervisor.log  what it had to say, normally nothing; bounded (logLimit)
//
// An end stays with the supervisor until the peer acknowledges it, which it does when it has the
// end in its own journal. If the supervisor was killed, its processes go on; the next one watches
// those that still are what .running says – the same number, started at the same moment of the same
// boot, so that a number given to somebody else is never taken for a task – and says of their end
// that nobody saw the exit code.
//
// A process started in a task is known as long as it lives, also outside of the task's process
// group, by a limit it inherits (tag_linux.go). A stop reaches it, and within a second of the
// task's end it is killed. One in a control group of its own (sandbox.Groups) ends with that,
// whatever it gave up. What loses its parent becomes the supervisor's child (reaper_linux.go), so
// that Whose can tell of any process whether it is a task's; one that gave up the limit then, and
// whose environment names no task that runs, is killed within a second. A task has the descriptors
// 0, 1 and 2 and no others.
//
// The package uses the standard library only, and its supervisor begins before most packages of the
// program are initialised (begin_linux.go). Where there is no supervisor – all but Linux – an
// Engine works in the peer's own process, and processes end with the peer.
package supervise
