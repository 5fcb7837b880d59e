// Package line makes connections as slow as a line that carries no more: what testnets and tests
// hurt a peer with.
//
// All connections and sockets of one machine share a Line. Each direction has a rate and one queue:
// what enters leaves in that order, whatever it belongs to, so that a small message waits behind a
// large one of another connection. Who sends waits while the queue is longer than Queue; behind
// what is received, the system's own queues fill up, and then the sender's.
//
// Nothing is lost but packets that do not fit the system's queue. The rate may be changed at any
// time. While there was no limit yet, a connection costs one lock for each Read and Write. Memory:
// Queue at the rate, 4 KiB and what was received and is not read, up to 4 MiB, for each connection.
package line
