// Package quorum keeps the ledger where a majority of voters has it: what was acknowledged is on their disks, in one order, and at most one
// of them, the coordinator, writes. It runs raft at those that hold a seat, feeds everybody else from them, elects, seats and unseats
// voters, notices a disk that lost or changed something, and begins a ledger again from a copy when a person says so.
//
// What the decisions mean it leaves to package ledger, of which it holds a Replica.
package quorum
