// Package ledger is the ordered log of decisions, and what follows from them: who is admitted,
// which job is accepted, which task goes where, which attempt is given up, what the final status of
// a task was. It is pure: no clock, no randomness, no goroutine, no disk, no network.
//
// A decision is a Command. Commands that are decided together are an Entry, entries have an Index,
// and State.Apply(entry) says what came of each command. The same entries make the same State on
// every peer, whatever is in them: what makes no sense, or no longer holds, is refused in the
// Result.
//
// # How to drive it
//
// The owner of the log feeds a Replica: one State with a lock, one source and many readers.
//
//	NewReplica               an empty ledger
//	Reset(state)             after a snapshot came: DecodeState reads what Encode wrote
//	Apply(entry)             the next entry, in order; one that was applied before is skipped
//
// Package quorum does that with what a majority of voters agreed on (ReadEntry reads an entry of
// its log), and testnet/sim/memledger with a log in memory, for tests. Both implement Ledger, and
// who has a Ledger does not see which it is.
//
// A caller that wants a decision calls Ledger.Propose, which returns once the own replica has
// applied it. Only the coordinator's proposals are taken; the others get ErrNotCoordinator. The
// coordinator's loop proposes, and package node on behalf of the peer that called the coordinator.
// All others read:
//
//	Replica.Read(func(*State))     a look, quick, with nothing kept of it
//	Replica.Observe(func(Event))   every entry with its results, in order, and every Reset
//	KeepUp(table, event)           has a table of statuses forget what is decided
//	Replica.Lives(event)           the incarnations that count, for those who check batches
//
// The coordinator stamps what it proposes (Stamps): decisions carry the time, Apply reads no clock.
//
// # Its parts
//
//	State      applies entries: asks Warrants about each command, then has it carried out
//	roster     who was ever admitted, whose word gave them their roles, and the invites
//	book       the jobs; each JobRecord has its slots, its past attempts and its versions
//	Warrants   who may ask for what: acts that counted, whose a job is, which orders still hold
//	chain      a checksum over all that was applied
//
// The book and the roster do not know of each other: what a command needs of both, State or
// Warrants looks up. Warrants reads them and changes neither.
//
// # The states of a slot
//
// A job has slots; a slot goes through attempts, and each attempt is a task.
//
//	         Assign             Settle
//	waits ------------> open ------------> ended
//	^ ^ ^                | |                 |
//	| | +-Supersede again+ +-Supersede-------+ (its end: lost, or what the coordinator says)
//	| |                                      |
//	| +------ the job's restart policy ------+ (decided in the same Apply as the end)
//	+---------------- Renew -----------------+
//
// An arrow back to waits begins the next attempt. Renew of an open slot has it leave: its worker is
// told to stop, and at its end it waits again. Retire is for slots that are not wanted any more: at
// once if they wait or have ended, at its end if it is open. A late success of an attempt that was
// given up counts if its slot has no end yet.
//
// # The states of a job
//
//	        predecessors ended well           a slot is assigned
//	blocked ----------------------> pending ----------------------> running ---> over
//	   |                               |                                          ^
//	   +-------------------------------+------ Cancel, or too many failures ------+
//
// A job is over when no slot waits or is open: complete, failed or shut down (JobRecord.State).
// Renew begins a batch job again that is over. A service or global job runs until it is cancelled;
// it is one record through all its updates, each of which is a version with a rollout
// (RolloutState). What follows from an end by the job's own rules - another attempt, the cut after
// too many failures, jobs that waited - is decided in the Apply of that end, and the Result says
// it, so that nobody has to compare states.
//
// # What a slot costs
//
// A slot that was never assigned costs nothing: it is part of a run. One that was assigned costs 48
// bytes, for good: whom it was given to is a number, its final status is a number too, because most
// slots of a job end alike. What only few slots have - a version, a pin, that they leave, when they
// may start, how often they were restarted - is kept beside the cells. What is kept of the files of
// an end takes 48 bytes more, and 32 if logs are kept with them, in jobs that have files kept; who
// keeps them is a number. Counts are kept, not computed; open slots are found by scanning the
// chunks that have any.
//
// # What is kept
//
// Finished jobs go by count, age and weight (the Keep constants and Settings), oldest end first, at
// the same entry on every peer. The id of a forgotten job stays longer, so that a late repetition
// of its Submit does not run it again. A removed peer's tombstone stays.
//
// # Who knows what jobs run
//
// A State may be without what some jobs run (taskstate.Withheld), and comes to the same as one that
// has it: the same results, the same chain, the same bytes of EncodeFor. EntryFor and EncodeFor
// take away what a peer has nothing to do with, NewestPublic is the newest entry as everybody may
// have it. Lacking names the jobs concerned, Fill takes what is missing from another State, and
// GiveUp says that nobody has it.
//
// # What it does not do
//
// It does not place, cap or pace: Job.Parallel, Job.MaxPerPeer, resources, constraints, the pace of
// a rollout and the moment of a scheduled run are the coordinator's business. A slot that is
// assigned before its NotBefore is assigned: clocks differ. Of signatures it verifies those of acts
// and orders (State.SetVerify), not those of statuses: the proposer has. It knows no reachability:
// that is an observation. It does not know how the log comes to be the same everywhere, who may
// write it, or where it is kept: package quorum does.
package ledger
