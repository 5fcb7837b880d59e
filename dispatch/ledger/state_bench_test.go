package ledger_test

import (
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

const benchSlots, benchBatch = 100_000, 500

// benchEntries is the life of one job of no-ops, as entries: settled in the batches it was assigned
// in.
func benchEntries(b *testing.B) [][]byte {
	b.Helper()
	const peer, inc = "12D3KooWEqnTdgqHnkkwarSrJjeMP2ZJiADWLYADaNvUb6SQNyPF", "k3v5q7x2abk3v5q7"
	job := taskstate.Job{ID: "k3v5q7x2ab", Type: taskstate.BatchJob, Count: benchSlots, Run: taskstate.Run{Noop: &taskstate.Noop{}}}
	cmds := [][]ledger.Command{{
		{Admit: &ledger.Admit{Entry: admission.Entry{Peer: peer, Roles: admission.AllRoles()}}},
		{Register: &ledger.Register{Peer: peer, Incarnation: inc}},
		{Submit: &ledger.Submit{Job: job}},
	}}
	for first := 1; first <= benchSlots; first += benchBatch {
		assign := &ledger.Assign{Job: job.ID, Peer: peer, Incarnation: inc, Slots: []ledger.Slots{{First: first, N: benchBatch, Attempt: 1}}}
		settle := &ledger.Settle{Peer: peer, Incarnation: inc}
		for i := range benchBatch {
			settle.Statuses = append(settle.Statuses, taskstate.Status{
				Task: taskstate.Task(job.ID, first+i, 1), Seq: 1, State: taskstate.Complete, Index: uint64(first), At: 1795255000000,
			})
		}
		cmds = append(cmds, []ledger.Command{{Assign: assign}}, []ledger.Command{{Settle: settle}})
	}
	var out [][]byte
	for i, c := range cmds {
		p, err := wire.Marshal(ledger.Entry{Index: uint64(i + 1), Epoch: taskstate.At(1, 1), Stamp: 1795255000000 + int64(i), By: peer, Commands: c})
		if err != nil {
			b.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

func BenchmarkAssignAndSettle(b *testing.B) {
	raw := benchEntries(b)
	entries := make([]ledger.Entry, len(raw))
	decode := func(b *testing.B) {
		for i, p := range raw {
			entries[i] = ledger.Entry{}
			if err := wire.Unmarshal(p, &entries[i]); err != nil {
				b.Fatal(err)
			}
		}
	}
	apply := func(b *testing.B) *ledger.State {
		st := ledger.NewState()
		for _, e := range entries {
			for _, r := range st.Apply(e) {
				if r.Refused != "" {
					b.Fatal(r)
				}
			}
		}
		return st
	}
	decode(b)
	perSlot := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*benchSlots), "ns/slot")
	}
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for i := range entries {
				if _, err := wire.Marshal(entries[i]); err != nil {
					b.Fatal(err)
				}
			}
		}
		perSlot(b)
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			decode(b)
		}
		perSlot(b)
	})
	b.Run("apply", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			apply(b)
		}
		perSlot(b)
	})
	b.Run("snapshot", func(b *testing.B) {
		st := apply(b)
		size := 0
		for b.Loop() {
			p, err := st.Encode()
			if err != nil {
				b.Fatal(err)
			}
			size = len(p)
			if _, err := ledger.DecodeState(p); err != nil {
				b.Fatal(err)
			}
		}
		perSlot(b)
		b.ReportMetric(float64(size)/benchSlots, "bytes/slot")
	})
}
