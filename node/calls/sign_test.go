package calls

import (
	"errors"
	"testing"

	"github.com/coveyproject/covey/taskstate"
)

func TestAGuardOfCallsIsBounded(t *testing.T) {
	var g Guard
	const begin = 1_000_000_000
	g.term(begin)
	nonce := func(i, j int) []byte {
		return append([]byte{byte(i), byte(i >> 8), byte(j), byte(j >> 8)}, make([]byte, nonceLen-4)...)
	}
	for i := range 40 {
		for j := range noncesOfOne + 100 {
			at := int64(begin + j)
			if err := g.admit(taskstate.PeerID(rune('a'+i)), at, nonce(i, j), at); err != nil {
				t.Fatal(i, j, err)
			}
		}
	}
	kept := 0
	for _, a := range g.askers {
		kept += len(a.calls)
	}
	if kept != g.total || kept > noncesOfAll {
		t.Errorf("%d kept, %d counted", kept, g.total)
	}
	for i := range 40 { // what was forgotten is not taken again either
		for _, j := range []int{0, 50, noncesOfOne / 2, noncesOfOne + 99} {
			if err := g.admit(taskstate.PeerID(rune('a'+i)), int64(begin+j), nonce(i, j), begin+noncesOfOne); err == nil {
				t.Errorf("call %d of %d counted twice", j, i)
			}
		}
	}
	g.term(begin + 10_000) // another term knows nothing of what was asked before, and takes none of it
	if err := g.admit("a", begin+5_000, nonce(0, 5_000), begin+10_001); !errors.Is(err, errStale) {
		t.Error(err)
	}
}
