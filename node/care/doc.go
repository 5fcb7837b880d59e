// Package care looks after the files that this peer keeps for jobs: what their tasks left, and what
// the jobs it submitted need.
//
//	Core     what is to be done, from what the ledger says is kept, what is pinned here, and who is here; pure
//	Care     has it done: a loop with a few workers
//	Logs     reads the kept output of a task
//	Keepers  who may keep files, and so is asked to
//	Report     what people are told
//
// # What it does
//
//   - What the ledger says is kept here, or was submitted here with more than one copy wanted, is
//     brought if it is not here whole, and pinned as long as the ledger has the job. So a submitter
//     that was away gets what its jobs left, unasked, and a copy that is damaged is made good.
//   - Where copies are missing – a keeper has been away for LostAfter, or has left, or there was
//     nobody when the task ended – the first living keeper has another peer keep one. It tells the
//     ledger of a keeper that has left, too, so that no copy is shown that is gone.
//   - What is said to be kept here and cannot be brought back – its disk went, and there is no
//     room, or nobody has it for a minute – is told to the ledger as lost, so that others make another copy.
//   - What the jobs submitted here need stays pinned as long as the ledger has them.
//   - Where room is short, a copy that is not needed goes: when the submitter has one, and there
//     are enough without it. The ledger decides that, so that two do not let go at once. All others stay
//     until the ledger forgets their job; a peer that has no more room for them takes no tasks.
//   - A pin whose job is forgotten, or whose attempt came to nothing, is removed.
//
// A peer that is drained or is about to leave does not count as a keeper: what only it has is
// handed to others.
//
// # Bounds
//
// A record for each thing that is kept here. Older jobs come first. At most 4 large things are
// brought at once, and beside them 64 small ones together; 4 peers are asked. What fails is tried
// again with growing pauses, sooner if a peer comes back. What is brought is held to the store's
// quota: without room it stays away.
package care
