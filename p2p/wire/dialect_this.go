//go:build !nextdialect

package wire

// Dialect is the newest one this program reads: a number that is raised when peers are to read a
// field or a command that those before do not know.
const Dialect = 2
