// Package orders carries out what a person orders at a peer: it finds what is meant, makes a call
// of it, and waits until this peer has heard of what was decided, so that the next caller sees
// it.
//
//	o := orders.New(orders.Config{…})
//	go o.Forward(ctx)        // brings held jobs to a coordinator
//	go o.Recall(ctx)         // has jobs that were cancelled while they were held stay cancelled
//	o.Wake()                 // somebody else coordinates: held jobs are tried again
//
// The local API calls the rest: Submit, Cancel, Preview, Scale, Rollout, Retry, Pin, Trigger,
// Rebalance; SetAvailability, SetLabels, SetRoles, Set; Invite, Revoke, Remove, Thaw; PlanRecover
// and Recover. The way of a submission:
//
//	Submit ─ valid? disk writable? ─► namesake goes on? ── yes ──► update
//	                                       │no
//	                              calls.Line.Decide, for three seconds
//	                   accepted ◄──────────┼──────────► nobody decides: held on this disk, then HELD
//	                                       ▼
//	                                    refused
//
// Anything else is not held: without a coordinator it is refused, with who is missing. An update is
// made again, a few times, when somebody else's came in between.
//
// It owns no state but who is to be woken. It does not check roles (node/decide does, where the
// call arrives) and places nothing.
package orders
