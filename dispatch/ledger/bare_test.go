package ledger_test

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// signSome has jobs of an entry signed, with items for some, in the place of the orders that count
// now or of others, and changes some after that.
func signSome(r *rapid.T, e ledger.Entry, now *ledger.State) ledger.Entry {
	e.Commands = slices.Clone(e.Commands)
	for i, c := range e.Commands {
		if e.Index == 1 && i == 0 || c.Submit == nil && c.Update == nil || rapid.IntRange(0, 9).Draw(r, "unsigned") == 0 {
			continue
		}
		var job taskstate.Job
		if c.Submit != nil {
			job = c.Submit.Job
		} else {
			job = c.Update.Job
		}
		if job.Run.Noop != nil {
			job.Run.Noop = &taskstate.Noop{Duration: job.Run.Noop.Duration + 100}
		}
		if job.Count > 0 && rapid.Bool().Draw(r, "items") {
			for k := range job.Count {
				job.Each = append(job.Each, fmt.Sprint("item ", k))
			}
		}
		if rapid.IntRange(0, 3).Draw(r, "inputs") == 0 {
			job.Inputs = []taskstate.Input{{Name: "in", From: rapid.SampledFrom(jobIDs()).Draw(r, "of")}}
		}
		job.Submitter = rapid.SampledFrom([]string{"p8", "p9"}).Draw(r, "submitter")
		var old *taskstate.Order
		if j, ok := now.Job(job.ID); ok && rapid.IntRange(0, 5).Draw(r, "follows") > 0 {
			old, job.Submitter = j.Job().Order, j.Job().Submitter
		}
		if err := taskstate.SignOrder(&job, now.Cluster(), "p9", int64(1000*e.Index), old.Digest(), func(b []byte) ([]byte, error) { return b[:1], nil }); err != nil {
			r.Fatal(err)
		}
		switch rapid.IntRange(0, 20).Draw(r, "tampered with") {
		case 0:
			job.Run.Noop = &taskstate.Noop{Duration: 100_000}
		case 1:
			job.Each = append(slices.Clone(job.Each), "another")
		case 2:
			job.Each = nil
		case 3:
			job.Count++
		case 4:
			job.Order = old
		}
		if c.Submit != nil {
			e.Commands[i].Submit = &ledger.Submit{Job: job, Again: c.Submit.Again}
		} else {
			e.Commands[i].Update = &ledger.Update{Job: job, From: c.Update.From}
		}
	}
	if e.Index == 1 {
		e.Commands = append([]ledger.Command{{Admit: &ledger.Admit{Entry: entryFor("p9", admission.Submit)}}}, e.Commands...)
	}
	return e
}

func read(r *rapid.T, e ledger.Entry) (ledger.Entry, []byte) {
	index := e.Index
	e.Index = 0
	data, err := wire.Marshal(e)
	if err != nil {
		r.Fatal(err)
	}
	back, err := ledger.ReadEntry(index, data)
	if err != nil {
		r.Fatal(err)
	}
	return back, data
}

func snapshotFor(r *rapid.T, st *ledger.State, peer string) *ledger.State {
	b, err := ledger.EncodeFor(st, peer)
	if err != nil {
		r.Fatal(err)
	}
	back, err := ledger.DecodeState(b)
	if err != nil {
		r.Fatal(err)
	}
	return back
}

// Three replicas are fed with the same: one that knows all, one that knows of no job what it runs,
// and one that knows some.
func TestAReplicaWithoutWhatJobsRunDecidesAsTheOthers(t *testing.T) {
	long.Cases(t, 15)
	rapid.Check(t, func(r *rapid.T) {
		whole := ledger.NewState()
		others := map[string]*ledger.State{"stranger": ledger.NewState(), "p8": ledger.NewState()}
		for _, e := range anyHistory(r) {
			e, data := read(r, signSome(r, e, whole))
			results := whole.Apply(e)
			public := ledger.NewestPublic(whole).Data
			for peer, st := range others {
				given, err := ledger.EntryFor(data, peer)
				if err != nil {
					r.Fatal(err)
				}
				if peer == "stranger" && public != nil && !bytes.Equal(given, public) {
					r.Fatalf("entry %d has two public forms", e.Index)
				}
				bare, err := ledger.ReadShown(e.Index, given)
				if err != nil {
					r.Fatal(err)
				}
				for i, x := range st.Apply(bare) {
					want := results[i]
					if (x.Reopened == nil) != (want.Reopened == nil) {
						r.Fatalf("entry %d, command %d reopens a job at some only", e.Index, i)
					}
					x.Now, want.Now, x.Reopened, want.Reopened = nil, nil, nil, nil
					if !reflect.DeepEqual(x, want) {
						r.Fatalf("entry %d, command %d comes to %+v at %s, and to %+v", e.Index, i, x, peer, want)
					}
				}
				if rapid.IntRange(0, 9).Draw(r, "a snapshot instead") == 0 {
					st = snapshotFor(r, whole, peer)
					others[peer] = st
				}
				if _, a := st.Chain(); true {
					if _, b := whole.Chain(); !bytes.Equal(a, b) {
						r.Fatalf("after entry %d the chain of %s is another one", e.Index, peer)
					}
				}
				if a, b := encode(r, snapshotFor(r, whole, "stranger")), encode(r, snapshotFor(r, st, "stranger")); !bytes.Equal(a, b) {
					r.Fatalf("after entry %d the state of %s is another one", e.Index, peer)
				}
			}
		}
		if len(ledger.Lacking(whole)) > 0 {
			r.Fatal("the whole one lacks something")
		}
		for peer, st := range others {
			ledger.Fill(st, whole)
			ledger.GiveUp(st)
			if lost := ledger.Lost(st); len(lost) > 0 || !bytes.Equal(encode(r, st), encode(r, whole)) {
				r.Fatalf("%s was filled, and is without %v", peer, lost)
			}
		}
	})
}
