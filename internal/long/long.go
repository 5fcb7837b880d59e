// Package long marks the tests that take long: they run with `go test -tags long`, and leave
// themselves out otherwise. Only tests import it.
package long

// T is the part of testing.TB that is needed here.
type T interface {
	Helper()
	Skip(why ...any)
}

// Test leaves t out unless long tests run.
func Test(t T) {
	t.Helper()
	if !Tests {
		t.Skip("takes long: go test -tags long")
	}
}
