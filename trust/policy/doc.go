// Package policy says what a machine's owner lets run there: who may have what run, as whom, and
// held to what. It is pure.
//
//	policy.yaml ──Read──▶ Policy ──Here(what holds)──▶ Policy in force ──Digest──▶ the peer's offer
//	                                                        │                          │
//	              a task is to start ──Claim, Load──▶ Decide ◀──Claim of a job── the coordinator
//	                                                        │                          │
//	                                       taskstate.Confinement, or why not     a filter of peers
//
// The first rule that names who asks and what is to run decides; none means no. What a rule asks of
// the machine – a user of its own, no network – must hold there, or the rule refuses: nothing runs
// under less than was written. The machine's own decision is the one that counts. The coordinator
// asks the same Decide about the Digest, so that it need not try every machine to know.
//
// Who asks is a key. A role counts as a name for keys only as far as the caller has made sure that
// it was given by people (Claim.Roles).
package policy
