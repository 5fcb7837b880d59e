// Package mark keeps how far the servers of the ledger have acknowledged. A log can be emptied, cut
// off or turned back behind its owner's back, and looks like a young one afterwards; what it once
// held is known from elsewhere only: from the owner's own mark, in a file of its own (File), and
// from what others saw of it, each mark signed by its owner (Book).
//
// The entries that a mark speaks of are on disk before the mark is: a power cut at any moment
// leaves a log that reaches its mark. No acknowledgement waits for the mark, which follows within a
// second.
//
// The package does not decide what follows from a log that is behind its mark; the ledger does.
package mark
