// Package wire is how bytes are shaped between peers and on disk: one strict, deterministic CBOR
// dialect, and length-prefixed frames of it on a stream, with a size cap.
//
// It knows nothing of networks or tasks and stands on the lowest floor, so that both may use it.
package wire
