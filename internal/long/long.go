// Package long marks the tests that take long: they run with `go test -tags long`, and leave themselves out otherwise. Only tests import it.
package long

import "testing"

// Test leaves t out unless long tests run.
func Test(t testing.TB) {
	t.Helper()
	if !Tests {
		t.Skip("takes long: go test -tags long")
	}
}
