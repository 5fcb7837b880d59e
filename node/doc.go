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
//	openNetwork   key, roster, start number, host, seats    who this peer is, whom it lets in
//	openState     ledger, members, table, line, view, orders    what was decided, who asks what
//	openWork      files, runner, statuses, coordinator's loop, worker, output    who runs what
//
// A life:
//
//	New ─► enter (node/entry: found, join, resume) ─► wire ─► parts run
//	    ─► ready ─► … ─► goodbye ─► parts end ─► Close
//
// It is ready when it knows a coordinator, its own replica holds its admission, and its worker has
// read its journal; after readyTimeout also without these, and its status says so. Goodbye begins
// when ctx ends, with Down or Leave, when the peer is removed, or when a part fails.
//
// # Who calls whom
//
// The local API calls Backend, which is twelve parts in one (life.go): what is asked goes to the
// view and its Shapes, what is to change to the orders, what is this peer itself (Status, Leave,
// Down) to the Node. Others answer for one thing each: links, load, clinic (check-ups), files,
// guard.Desk (the policy), stdin.Feeds, metrics, door (tokens). An order becomes a call, which the
// line brings to the coordinator; there the desk decides it.
//
//	api ─┬─► view ──► replica, table, members, the coordinator's word (by the line)
//	     ├─► orders ─► line ─► … ─► line of the coordinator's peer ─► desk ─► ledger
//	     ├─► Node
//	     └─► links, load, clinic, files, guard.Desk, stdin.Feeds, metrics, door
//
// What happens comes the other way, on the goroutine of the part it happens to, and nothing on it
// waits: an applied entry goes to the roster's keeper and the digests, the view and the table, in
// this order (observers); a view of the members to the coordinator's loop, the voters' rules and
// the view. Statuses come as signed envelopes, by topic, by session and by digest, and
// statuses.merge takes in all of them: those by topic and session once statuses.ingest has checked
// the signature, those by digest, which the exchange has checked, as they are (statuses.pulled).
//
// # What it owns
//
// The data folder and its lock, and the numbers of its starts (start_numbers.go). Small types
// beside it own the rest, each with the few fields it alone touches:
//
//	statuses          takes statuses in, and has the topic they go out by
//	observers         who hears of an applied entry, in which order
//	dialects          which dialect members read
//	offering          what is given to tasks
//	jobFiles          the store of files, and all that moves them
//	contacts             where peers are to be found
//	seat              what is said of this peer's seat among the voters
//	disk, fullDisk    writes that must answer in time; what a full disk has to do with a failure
//
// Everything else is owned by the part that does it, in a room of its own.
package node
