//go:build nextdialect

package wire

// Dialect is one more than that of the program as it is: what tests of upgrades take for newer.
const Dialect = 3
