// Package long marks the tests that take long: they run with `go test -tags long`, and leave
// themselves out otherwise. Only tests import it.
package long

import "flag"

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

// Cases has the laws of t, which takes long for each case, tried on n of them unless long tests
// run or -rapid.checks says how many.
func Cases(t interface{ Cleanup(f func()) }, n string) {
	checks := flag.Lookup("rapid.checks")
	if Tests || checks == nil || checks.Value.String() != checks.DefValue {
		return
	}
	_ = checks.Value.Set(n)
	t.Cleanup(func() { _ = checks.Value.Set(checks.DefValue) })
}
