// Package admission decides who may come in: the roster of admitted peers, whose entries are signed
// by the coordinator that wrote them, the tickets that invite, and the two protocols strangers may
// speak – join and roster.
//
// A Roster is a peer's own copy of what the ledger says about admission. It is filled three ways,
// from most to least trusted: Trust (own ledger replica), Adopt (the answer to joining, on the word
// of the peer that was named in the ticket) and Offer (anybody, proved by signatures back to a
// voter this roster knows). The gate of package p2p asks Admitted.
//
// Join: a newcomer dials a peer, shows an invite's secret and gets its entry, the roster and the
// voters, or a Refusal that says what to do. Show: an admitted peer shows its entry to one that has
// not heard of it yet, and both learn.
//
// The package knows nothing of ledgers or tasks: who really admits is a port (Admitter).
//
// An entry replaces an older one of the same peer by its time At. A writer of entries must
// therefore never write one that is not later than the peer's entry before: a coordinator takes the
// ledger's monotone stamp, not its bare clock.
package admission
