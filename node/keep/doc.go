// Package keep has other peers keep copies of what a task left.
//
//	Serve(net, config)              keeps for others what they ask for: Protocol
//	Ask(ctx, net, peer, request)    asks one peer
//	Finder.Copies(ctx, wanted)      asks one after the other until there are enough copies
//
// # The protocol
//
// One stream for each request. Who asks says what is to be kept, and who has it; the keeper fetches
// it (package blob), says now and then how far it is, and at last that it is kept – on its disk and
// pinned – or why not: it stores nothing for others, it has no room, it does that for as many as it
// can, or something failed. Whoever is about to let go of its own copy has the others read theirs
// first. Members are answered only.
//
// What several requests of one peer want is fetched together while they are small, with one sync
// for all, so that thousands of small outputs do not wait for a disk each.
//
// # Whom to ask
//
// Search is a pure core: candidates come in an order, as many are asked at once as copies are
// missing, whoever refuses, breaks off or is silent for Stall gives way to the next, and all ends
// after Patience, or when MaxAsked were asked, with what there is.
//
// # Bounds
//
// Streams as in package limit; MaxFetching fetches at once, each of MaxTogether requests at most,
// and MaxLarge of what is large by itself. Of every file under way some 100 bytes: what a request
// says of itself is checked against the lists of its files before these are fetched.
package keep
