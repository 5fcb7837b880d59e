package testnet_test

import (
	"bytes"
	"os"
	"testing"

	"covey/testnet/sim"
)

func TestDump(t *testing.T) {
	var out bytes.Buffer
	r := sim.Run(sim.Config{Seed: *firstSeed, Trace: &out})
	t.Log(r.Hash, r.Violation)
	_ = os.WriteFile("/tmp/simx/a", out.Bytes(), 0o600)
}
