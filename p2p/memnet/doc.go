// Package memnet is the in-memory twin of p2p's host: named peers, protocols and streams without
// sockets, keys or libp2p.
//
// It runs inside a testing/synctest bubble: waiting is on channels and timers only. Each direction
// of a stream buffers up to 256 KiB; a writer beyond that waits, as on a real stream. Close
// unblocks the own Read and Write at once, the other side reads what was sent and then io.EOF.
//
// Hurting it: Kill a peer (its streams are reset, dials to it are refused at once), Cut two peers
// (streams between them stall until Heal, dials time out after three seconds), Delay everything.
// None of it loses bytes of a stream that goes on.
//
// Wires is one floor deeper: machines with addresses and TCP between them, for tests that want the
// real host, libp2p and all, over a network that can be hurt: also by lines that carry little.
//
// The tests of other packages use it; the program does not.
package memnet
