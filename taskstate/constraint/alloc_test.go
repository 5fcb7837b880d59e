//go:build !race

package constraint_test

import "testing"

// Not in race mode, where a sync.Pool drops some of what it is given, on purpose: package regexp
// keeps its machines in one.
func TestAskingAllocatesNothing(t *testing.T) {
	f := server()
	for _, text := range []string{
		"peer.os == linux", "peer.label.zone != east", "peer.label.zone in (a, b, west)", "peer.label.gen >= 3.25", "peer.label.zone < 3", "peer.cpus >= 2", "peer.memory < 4GiB", "peer.offer.gpus == 2",
		"peer.addr in (192.168.0.0/16, fe80::/10)", "peer.name =~ ^gpu-[0-9]+$", "peer.name =~ (a|b|g)pu.*[0-9]",
	} {
		c := parse(t, text)
		if n := testing.AllocsPerRun(100, func() { c.Holds(f) }); n != 0 {
			t.Errorf("%s: %v allocations", text, n)
		}
	}
}
