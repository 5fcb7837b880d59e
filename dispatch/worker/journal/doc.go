// Package journal keeps on disk what a worker must not forget: whose it is, assignments, ends,
// batches that nobody has acknowledged, tombstones, and the epoch that was obeyed.
package journal
