// Package stack lives through whole lives of a flock of real peers in virtual time: node.Node with libp2p, GossipSub, memberlist, raft,
// journals and ledger on disk, in one testing/synctest bubble. Only two things are played: the wires between the machines
// (memnet.Wires), and what tasks do (runner).
//
// Faults, load and questions are drawn from a seed. The seed gives the same faults at the same times again; what goroutines make of
// them differs from run to run. That is why a broken invariant is told with all that led to it.
//
// What is checked is what can be seen from outside: what runners are asked to run, what every peer's watch tells, what clients are
// answered (testnet/history), and whether all peers agree once the faults are over.
package stack
