package taskstate_test

import (
	"bytes"
	"encoding/hex"
	"os"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/p2p/wire"
	. "github.com/coveyproject/covey/taskstate"
)

// anyBatch draws a batch a worker may have written.
func anyBatch(r *rapid.T) Batch {
	word := rapid.StringMatching(`[a-z0-9]{1,20}`)
	statuses := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) Status {
		return Status{
			Task: Task(JobID(word.Draw(r, "job")), rapid.IntRange(1, 1<<40).Draw(r, "slot"), rapid.IntRange(1, 99).Draw(r, "attempt")),
			Seq:  rapid.Uint64Min(1).Draw(r, "seq"), State: rapid.SampledFrom(States()[3:]).Draw(r, "state"),
			Index: rapid.Uint64().Draw(r, "index"), At: rapid.Int64().Draw(r, "at"), Exit: rapid.IntRange(-1, 255).Draw(r, "exit"),
			Signal: rapid.IntRange(0, 64).Draw(r, "signal"), Reason: Reason(rapid.StringN(0, 20, MaxMessage).Draw(r, "reason")),
			Message: rapid.StringN(0, 50, MaxMessage).Draw(r, "message"),
			Took:    rapid.Int64Min(0).Draw(r, "took"), Waited: rapid.Int64Min(0).Draw(r, "waited"), Truncated: rapid.Bool().Draw(r, "truncated"),
		}
	}), 1, 8).Draw(r, "statuses")
	return Batch{Author: word.Draw(r, "author"), Incarnation: Incarnation(word.Draw(r, "inc")), Number: rapid.Uint64Min(1).Draw(r, "number"), Statuses: statuses}
}

func TestABatchSurvivesItsEncoding(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		b := anyBatch(r)
		p, err := EncodeBatch(b)
		if err != nil {
			if strings.Contains(err.Error(), "too long") {
				r.Skip()
			}
			r.Fatal(err)
		}
		got, err := DecodeBatch(p)
		if err != nil || !reflect.DeepEqual(got, b) {
			r.Fatalf("%v came back as %v: %v", b, got, err)
		}
	})
}

func TestWhatNoWorkerMayWriteIsRefusedOnBothSides(t *testing.T) {
	good := func() Batch { return says(ann, life, status(1, 1, Complete, 5)) }
	for name, spoil := range map[string]func(*Batch){
		"no author":           func(b *Batch) { b.Author = "" },
		"no incarnation":      func(b *Batch) { b.Incarnation = "" },
		"a huge author":       func(b *Batch) { b.Author = strings.Repeat("x", 1000) },
		"number 0":            func(b *Batch) { b.Number = 0 },
		"too many statuses":   func(b *Batch) { b.Statuses = make([]Status, MaxBatchStatuses+1) },
		"no job":              func(b *Batch) { b.Statuses[0].Task.Job = "" },
		"slot 0":              func(b *Batch) { b.Statuses[0].Task.Slot = 0 },
		"attempt -1":          func(b *Batch) { b.Statuses[0].Task.Attempt = -1 },
		"status 0":            func(b *Batch) { b.Statuses[0].Seq = 0 },
		"the state assigned":  func(b *Batch) { b.Statuses[0].State = Assigned },
		"a state in between":  func(b *Batch) { b.Statuses[0].State = Complete + 1 },
		"less than no time":   func(b *Batch) { b.Statuses[0].Took = -1 },
		"a message too long":  func(b *Batch) { b.Statuses[0].Message = strings.Repeat("x", MaxMessage+1) },
		"a message of debris": func(b *Batch) { b.Statuses[0].Message = "\xff" },
	} {
		b := good()
		spoil(&b)
		if _, err := EncodeBatch(b); err == nil {
			t.Errorf("%s: encoded", name)
		}
		p, err := wire.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := DecodeBatch(p); err == nil {
			t.Errorf("%s: decoded", name)
		}
	}
	if _, err := DecodeBatch(make([]byte, MaxBatchBytes+1)); err == nil || !strings.Contains(err.Error(), "cap") {
		t.Errorf("a batch above the cap: %v", err)
	}
}

// FuzzDecodeBatch holds DecodeBatch to two promises: it never panics, and what it lets in is what
// EncodeBatch would write.
func FuzzDecodeBatch(f *testing.F) {
	for _, b := range []Batch{
		says(ann, life),
		says(ann, life, status(1, 1, Running, 5), status(2, 7, Failed, 6)),
	} {
		p, err := EncodeBatch(b)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(p)
		f.Add(p[:len(p)-1])
	}
	for _, name := range []string{"batch.hex", "batch-0.1.hex"} {
		b, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		p, err := hex.DecodeString(strings.TrimSpace(string(b)))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		b, err := DecodeBatch(p)
		if err != nil {
			return
		}
		q, err := EncodeBatch(b)
		if err != nil {
			t.Fatalf("decoded, but does not encode: %v", err)
		}
		c, err := DecodeBatch(q)
		if err != nil || !reflect.DeepEqual(b, c) {
			t.Fatalf("%v became %v: %v", b, c, err)
		}
		if r, _ := EncodeBatch(c); !bytes.Equal(q, r) {
			t.Fatal("two encodings of one batch")
		}
	})
}
