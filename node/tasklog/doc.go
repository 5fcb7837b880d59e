// Package tasklog reads the output of tasks: where the task ran, while it runs, and over a stream
// from any other peer.
//
//	Store.Copy(ctx, request, f)          the output of a task of this peer
//	Server.Handle → LogsProtocol         the same for other peers
//	Fetch(ctx, net, peer, request, f)    the output of a task of another peer
//
// All three deal in Chunks: of two streams asked for together, whatever comes first; each with its
// offset, so that a broken Fetch can go on where it stopped. A stream's last chunk has EOF set.
//
// Following ends when the runner says that the output is complete, not when a file stops growing.
// New bytes are looked for by the file's size, 5 to 50 ms apart: the writer is the task itself,
// which tells nobody.
//
// A task that left nothing has an empty file in place of its folder: its folder, and its output
// files, may be a later task's by then. What is read counts only if the name still leads to the
// file it was read from.
//
// Who may read is asked of who serves it (May), with every request; the p2p gate lets admitted
// peers in and nobody else.
package tasklog
