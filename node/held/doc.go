// Package held keeps jobs on this peer's disk that nobody has accepted yet: one file each, durable
// before anybody is told HELD, and signed by this peer when it took them. A job that was cancelled
// here stays, marked, until no way out can bring it to the ledger any more. It brings none of them
// to anybody: node/orders does.
package held
