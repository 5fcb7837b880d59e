//go:build !long

package long

// Tests tells whether tests that take long run.
const Tests = false
