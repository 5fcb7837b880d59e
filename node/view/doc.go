// Package view answers what people ask of a peer: jobs, tasks and peers as rows, the story of a
// task, the progress of a job, output, and the stream of events. It changes nothing.
//
// # How it is driven
//
// The node makes one View and tells it what happens, in this order for each step of the replica;
// nothing here waits for a reader:
//
//	v := view.New(view.Config{…})      // all that it reads: see Config
//	replica.Observe(v.Events.Decided)  // an entry was applied: events of decisions, before the table forgets what is settled
//	v.Events.Reported(news)            // the table took in news of tasks: events of observations
//	v.Applied()                        // what waits in Reach goes on
//	v.Events.Seen(members)             // gossip has another view of who is here; returns who died
//	v.Events.Tell(job, "held", name)   // something became of a job at this peer alone
//
// The local API calls the rest directly, each call on a goroutine of its own: Jobs, Job, JobFile,
// Tasks, AllTasks, Explain, Follow, Logs, Peers, Peer, Draining, Watch, and what Shapes draws. What
// changes something finds its job or peer here, too (Find, Who.MeantPeer), and waits with Reach
// until this peer has heard of what was decided.
//
// # What an answer is made of
//
//	ledger.Replica ── what was decided ─────────┐
//	taskstate.Table ─ what workers report ──────┤
//	membership.View ─ who is here ──────────────┼─► rows, stories, progress
//	Config.Ask ────── the coordinator's view: ──┤
//	                  why jobs wait, standings   │
//	Config.Held ───── what waits on this disk ──┘
//
// Decisions win over reports: an end counts as the ledger has it. Without a coordinator (Ask
// answers nil within a second) this peer's own view of the members has to do, and the answer
// says who is missing.
//
// # State, and its bounds
//
// A View owns the ring of events (at most 8,192, none older than an hour, with any number of
// readers, each at its own pace: one that falls out of the ring is told how things stand) and the
// index the replica has come to. Its Events own the verdicts told last, and make all events. Its
// Names and Deciders own nothing: they tell who everybody is, and who decides or is missing. Rows
// of a job with very many tasks are made a few thousand at a time, as they are read.
//
// # What it does not do
//
// It decides nothing, asks nobody but the coordinator and the peer that has the output of a task,
// and writes nothing to the disk. It has no lock of the parts it reads: each row is true at a
// moment, and two rows may be of two moments.
package view
