package testnet_test

import (
	"bytes"
	"os"
	"testing"

	"covey/testnet/sim"
)

func TestDump(t *testing.T) {
	for i := range 2 {
		var out bytes.Buffer
		r := sim.Run(sim.Config{Seed: *firstSeed, Trace: &out})
		t.Log(r.Hash, r.Violation)
		_ = os.WriteFile([]string{"/tmp/simx/a", "/tmp/simx/b"}[i], out.Bytes(), 0o600)
	}
}
