// Package copies finds processes that go by one key.
//
// A machine may be cloned, restored from a backup, or resumed from a snapshot: then two processes
// go by one key, each with its own idea of what was decided and what runs. Neither can see the
// other, but everybody else can: it has connections to both. A peer that sees a second connection
// to a peer, or another start number than before, asks on each connection who is there. If two
// processes answer now, it brings them together: each gets, from the other, an answer to a
// challenge of its own, signed with the key both have. No word of anybody else counts. A process
// that has seen such an answer stops voting and taking tasks until a person has decided which of
// the two keeps the identity.
//
//	c := copies.New(copies.Config{…})
//	go c.Run(ctx)               // looks at those it was told of
//	net.Handle(copies.Protocol, c.Serve)
//	c.Heard(peer, start)        // a peer says which start it is
//	c.Vet(peer, start)          // may it have a session?
//	c.Halted()                  // does somebody else go by this peer's key?
//
// # Bounds
//
// Of each member one number, in memory. maxLookQueue peers wait to be
// looked at; a stream asks mostAsks things and takes no longer than answerTime.
package copies
