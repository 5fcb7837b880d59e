// Package stdin passes on what `peer run` reads to the task that is to read it, wherever that runs.
//
//	command ──POST──► Spool, at the submitter ──Protocol──► Copy, at the task's peer ──► runner
//
// The submitter's peer keeps the newest Keep bytes in a file of the job's folder. It reads no more
// from the command than it can keep of what the task has not taken, so a slow task holds back the
// command. The task's peer asks with an offset, again if the stream breaks, and says how far it has
// come; no more than Window is on its way.
//
// As long as all of it is kept – up to Keep – another attempt reads it from the beginning. After
// that there is nothing to begin with: another attempt is told so, and not begun. What has ended
// and is kept whole stays in the file, also over a restart of the submitter's peer; what was still
// coming ends with that, because the command has.
//
// An end is an end only if the command said so. Whatever else ends a stdin – the command was
// killed, its peer was restarted, or cannot be reached for Patience – is an error for the task: it
// must not take a part for the whole.
//
// Who may read is asked of Config.May. Feeds joins it all for a peer: a stdin is for the peer that
// runs the task, by the ledger's word.
package stdin
