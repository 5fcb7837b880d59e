// Package readers decides who may read what jobs left and what they need: the peer that submitted
// the job, and peers with the role admin or read. A peer that has to run tasks of a job may read
// its inputs as long as it has one; one that the ledger names as a keeper may read what it keeps.
//
//	r := readers.New(config)
//	r.Job(peer, id)       may it read what tasks of the job wrote?
//	r.Output(ctx, …)      the same of a task here, of whose job this peer may not know yet
//	r.Blob(peer, root)    may it have this file or folder?
//
// Files and folders that the ledger names – inputs of jobs, what tasks left – are answered by the
// jobs that name them: of any. What is in a folder has names that nobody can guess and only who may
// read the folder can know; the same holds for what people put (`peer put`) and hand to others by
// its name. What only a forgotten job named is like that, too, sooner or later.
//
// Which roles a peer has is asked of Given: those that people gave it, one after another from an
// admin that this machine knew when it joined.
//
// What the ledger names is kept in an index of some 50 bytes a name, which is brought up to date
// when somebody asks. Who feeds the replica only leaves a note.
package readers
