// Package process runs tasks that are processes: a command or a script, started by a supervisor.
//
//	Start ──► queue ──► starters ──► keeper (package supervise) ──► process ──► end ──► Config.Report
//
// Starters prepare: the folder, the script, the environment, the program. A task with inputs is
// prepared by a goroutine of its own, and reported as starting if that takes long. Processes belong
// to the keeper, as a rule a supervisor in a process of its own, so that they outlive the peer;
// after a restart, Adopt takes them up again.
//
// Every attempt has a folder of its own below Config.Dir:
//
//	JOB/SLOT.ATTEMPT/work     where it runs, empty at first
//	JOB/SLOT.ATTEMPT/stdout   what it wrote, up to the cap
//	JOB/SLOT.ATTEMPT/stderr   the same, and at its end a note if one of the two was cut
//	JOB/SLOT.ATTEMPT/stdout.times   when it wrote that, and stderr.times: notes of the supervisor's, of what was there when it looked
//
// Output goes straight into the two files: a pipe and a copying goroutine for each would cost a
// short task a fifth of its time. The files are opened for appending, so a file beyond its cap can
// be cut back under the running process: what it writes next lands at the cap again and is cut away
// in turn. The process never blocks, gets no SIGPIPE and cannot fill the disk; between two looks
// (100 ms, 10 ms once it is over) it can be over the cap by what it writes in that time. Of a
// service the newest output stays: the disk gets back what is older than half of the cap (Linux: a
// hole is punched), and every byte keeps its offset, so that readers go on. Where the disk cannot
// do that it is cut as any.
//
// A process leads a process group of its own. Signals go to the group, and when the process has
// ended, what is left of the group is killed, before the process is reaped: until then its number
// cannot be given to anybody else. On Linux that is so of a process that left the group, too: a
// stop reaches it, and within a second of the task's end it is killed, whatever session and
// environment it gave itself; what it wrote since is cut away.
//
// The folder of an attempt that left neither output nor a file is given, with the empty files in
// it, to a later attempt (Linux): the two names change places with renameat2, and what stays behind
// is one more name of an empty file, .nothing, that all such attempts share. It says that the task
// was here and that its output is empty. Only a folder that is as it was made qualifies, and only
// if nobody has its output open: the kernel grants a lease for writing. All others stay until their
// job is cleaned away. Removing them at once looks tidy and is not: ext4 does not hand out an inode
// again for minutes and walks past all of these at every creation, which made starting a task ten
// times as expensive after a few thousand of them. For the same reason a job of tasks that leave
// nothing should not make inodes that go with it.
//
// The package does not queue by resources, retry, decide or talk to anybody: the worker starts what
// may run now.
package process
