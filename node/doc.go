// Package node makes one peer out of the parts and gives it a life. It decides, places and merges
// nothing: it joins those who do.
//
// # How it is driven
//
//	n, err := node.New(node.Config{Data: dir, …})   // folder locked, port bound, parts built; nothing runs
//	err = n.Run(ctx, func(st api.Status) { … })     // lives until ctx ends, Down, Leave, or something essential fails
//
// New builds in this order, each part from those before it; Close, which Run calls, takes them
// back:
//
//	openNetwork   key, roster, start number, host, seats       who this peer is, whom it lets in, where it listens
//	openState     ledger, table, line, held jobs, view, orders  what was decided, what is reported, who asks what
//	openWork      runner, statuses, digests, coordinator's loop, worker, output
//
// A life:
//
//	New ─► enter (node/entry: found, join, resume) ─► wire ─► parts run ─► ready ─► … ─► goodbye ─► parts end ─► Close
//	                                                                        ▲              ▲
//	                                                 a coordinator is known, │              │ ctx, Down, Leave, removed,
//	                                                 and its own admission ──┘              └ or a part that failed
//
// # Who calls whom
//
// The local API calls Backend: what is asked goes to the view, what is to change to the orders,
// what is this peer itself (Status, Leave, Down, Stdin) to the Node. An order becomes a call, which
// the line brings to the coordinator; there the desk decides it.
//
//	api ─┬─► view ──► replica, table, members, the coordinator's word (by the line)
//	     ├─► orders ─► line ─► … ─► line of the coordinator's peer ─► desk ─► ledger
//	     └─► Node
//
// What happens comes the other way, on the goroutine of the part it happens to, and nothing on it
// waits (wire.go): an applied entry goes to the roster's keeper and the digests (heed), the view
// and the table, in this order; a view of the members to the coordinator's loop, the voters' rules
// and the view; statuses come as signed envelopes, by topic, by session and by digest, and all
// three ways lead through one door (statuses.accept).
//
// # What it owns
//
// The data folder and its lock, the numbers of its starts (begun.go), whether another process goes
// by its key (copies.go), the door of the statuses (statuses.go), and the stdins under way
// (feeds.go). Everything else is owned by the part that does it.
package node
