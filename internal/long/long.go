// Package long marks the tests that take long: they run with `go test -tags long`, and leave
// themselves out otherwise. Only tests import it.
package long

import (
	"flag"
	"strconv"
)

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
// run or -rapid.checks says how many. t is not parallel: the number is one for all that run.
func Cases(t interface{ Cleanup(f func()) }, n int) {
	checks := flag.Lookup("rapid.checks")
	if Tests || checks == nil || checks.Value.String() != checks.DefValue {
		return
	}
	_ = checks.Value.Set(strconv.Itoa(n))
	t.Cleanup(func() { _ = checks.Value.Set(checks.DefValue) })
}
