// Package calls brings to the coordinator what only it decides: the types of calls
// and of their answers, their signatures, and the Line they travel on.
//
//	line := calls.NewLine(calls.Config{…})
//	host.Handle(calls.Protocol, …line.Serve…)   // calls of other peers: decided here, or passed on
//	r, err := line.Decide(ctx, calls.Call{Cancel: &ledger.Cancel{…}})
//
// Decide goes on trying until its context ends: every call is idempotent, so that it may be made
// again. What a call came to:
//
//	Call ─ sealed (Signer) ─► Serve at some peer ─ Check ─► coordinates? ─ no ──► passed on, at most Hops times
//	                                                         │yes
//	                                          counted once (Guard) ─► Config.Execute ─► Reply
//
// A Reply with Lost set says nothing about the decision: ask again. Its Index is where the asker's
// replica will have what was decided.
//
// The Line owns the correction of this machine's clock, and what was asked of this peer in its term
// (bounded per asker and in all). It does not decide, nor look at roles: that is Execute's
// (node/decide). A peer that passes a call on can drop it, and cannot change or invent one.
package calls
