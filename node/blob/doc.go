// Package blob brings blobs from other peers, and gives them to others.
//
//	Serve(net, shelf, config)            answers others' questions: Protocol
//	Fetcher.Fetch(ctx, request)          brings blobs here, from whoever has them
//	Shelved, Keep                        both on a store (package store)
//	Bring(ctx, store, …, refs)           brings files and whole folders into a store
//
// # The protocol
//
// One stream between a fetcher and each source, on which questions may follow each other without
// waiting; answers come in the order of the questions. A question or an answer is a frame, and what
// is asked for follows its frame as raw bytes: putting it into frames would cost as much processor
// time as encrypting it.
//
//	Have   which pieces of up to MaxRoots blobs are there
//	Proof  values of a blob's proof
//	Get    bytes of a blob, up to MaxRead
//	Bad    a piece that came was wrong: the source looks at its copy, and forgets the piece if it is
//
// # What a source promises
//
// It answers members only (Config.Admitted is asked with every question, beside the gate of p2p),
// says of what is not for them (Config.May) that it is not here, and gives bytes to MaxPullers
// streams at once; others are told that it is busy. A stream that takes nothing for a few seconds
// makes place, though it goes on asking who has what: it may wait for a place elsewhere that one of
// the others has. It sends bytes as they are on its disk. It keeps at most MaxRead bytes and one
// proof for each of them.
//
// # What a fetcher does
//
// It asks all peers it is given which pieces they have, a few at a time, and keeps streams to
// MaxSources of those that have something. What is asked of whom is decided by package swarm. Of a
// blob with more than one piece, or whose size nobody has said, one source gives the proof and the
// last piece first, which together prove the size; whoever gives a proof that does not fit is not
// asked again. Every piece is checked before it is kept. One that was wrong is fetched elsewhere;
// with a few such pieces, the source is left alone, and the error or the report names it.
//
// A source that is busy, breaks or is silent for LifeTimeout is tried again later, with growing
// pauses; the others go on. Fetch fails when nobody has what is missing and could be asked, or when
// nothing has come for Fetcher.Patience.
//
// Memory, whatever others say: a piece and the frames for each source, MaxOpen blobs wanted at the
// moment, and proofs of up to MaxProof bytes each, of which MaxOpenings are fetched at once.
package blob
