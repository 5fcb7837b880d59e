// Package audit writes down what a peer did in others' names, and reads it again.
//
//	l := audit.New(config)
//	l.Write(record)                returns at once, whatever the disk does
//	l.Run(ctx)                     writes until ctx ends
//	audit.Read(path, each)         all that is kept, oldest first, and whether it is whole
//
// A log is JSON lines. Each has a number, one more than the line before, and the SHA-256 of that
// line, so that a line that was changed, removed or put in between shows. The end of the log has
// nothing that follows it: that it was cut off, or that all was written anew by who may write the
// file, shows only against a number and a hash that were noted elsewhere (Findings.Last).
//
// # Bounds
//
// A file that has MaxSize bytes is put aside as PATH.1, that as PATH.2 and so on up to PATH.Keep;
// the chain goes on from one to the next. MaxWaiting records wait for the disk. Of more, as when
// the disk is full or read-only, only the number is kept: the first record that is written again is
// "lost" and says how many, and Config.Trouble hears what is wrong. Lines are not synced: after a
// power cut the newest may be missing. A last line that was torn by that is cut off at the next
// start.
package audit
