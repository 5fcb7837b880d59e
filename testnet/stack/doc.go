// Package stack lives through whole lives of a cluster of real peers in virtual time: node.Node
// with libp2p, GossipSub, memberlist, raft, journals and ledger on disk, in one testing/synctest
// bubble. Only two things are played: the wires between the machines (memnet.Wires), and what tasks
// do (runner).
//
// Faults, load and questions are drawn from a seed. The seed gives the same faults at the same
// times again; what goroutines make of them differs from run to run. That is why a broken invariant
// is told with all that led to it.
//
// Disks rot, are emptied, turned back to an earlier copy, and full for a while; a machine is
// cloned; and an attacker that has a peer's key defames the others, floods them, and, if it holds
// no seat in the ledger, acts as if it did. In one life one machine has a bad disk: so the disks of
// the other voters are a majority that is whole, and nothing that was accepted may be lost.
//
// What is checked is what can be seen from outside: what runners are asked to run, what every
// peer's watch tells, what keepers have on their disks of what tasks left, what clients are
// answered (testnet/history), and whether all peers agree once the faults are over.
package stack
