// Package spell reads what people write the same way wherever they write it: sizes, numbers of
// cpus, durations, and the word they probably meant; and it writes what they read. Its errors say
// what is wanted, so that a caller only adds where.
//
// It knows no jobs and no files.
package spell
