package held

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/coveyproject/covey/internal/golden"
	"github.com/coveyproject/covey/node/calls"
	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/jobfile"
)

func aHeldJob() (j Job) {
	golden.Fill(reflect.ValueOf(&j).Elem(), 1, func(v reflect.Value, n int) bool {
		if v.Type() == reflect.TypeFor[taskstate.Counts]() {
			v.Set(reflect.ValueOf(taskstate.CountsOf(map[string]int64{"gpus": int64(n)})))
			return true
		}
		return false
	})
	return j
}

// newSigner signs as a peer of one cluster.
func newSigner(t *testing.T) *calls.Signer {
	t.Helper()
	key, err := p2p.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	id, err := p2p.ID(key)
	if err != nil {
		t.Fatal(err)
	}
	return &calls.Signer{Self: id, Cluster: func() string { return "" }, Sign: key.Sign, Now: func() int64 { return time.Now().UnixMilli() }}
}

// wholeFile is a held job as it is written.
func wholeFile(t testing.TB) []byte {
	t.Helper()
	h := Store{dir: t.TempDir()}
	job := aHeldJob()
	job.Job.ID = "job"
	if err := h.write(job); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(h.file("job"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// What was written is read for ever.
func TestAHeldJobIsWrittenAsItAlwaysWas(t *testing.T) {
	if err := golden.Check("testdata/files.txt", fmt.Sprintf("held: %s\n", hex.EncodeToString(wholeFile(t)))); err != nil {
		t.Fatal(err)
	}
}

func noopJob(name string, count int, each time.Duration) taskstate.Job {
	j := taskstate.Job{Name: name, Count: count}
	j.Run.Noop = &taskstate.Noop{Duration: each.Milliseconds()}
	jobfile.Defaults(&j)
	return j
}

func FuzzAHeldJobFromDiskNeverPanics(f *testing.F) {
	f.Add(wholeFile(f))
	f.Fuzz(func(t *testing.T, b []byte) {
		var j, back Job
		if wire.Unmarshal(b, &j) != nil {
			return
		}
		again, err := wire.Marshal(j)
		if err != nil {
			t.Fatal(err)
		}
		if err := wire.Unmarshal(again, &back); err != nil {
			t.Fatal(err)
		}
		if twice, err := wire.Marshal(back); err != nil || !bytes.Equal(twice, again) {
			t.Fatalf("%+v and %+v, %v", j, back, err)
		}
	})
}

func TestAWithdrawalOutlivesARestart(t *testing.T) {
	dir := t.TempDir()
	h, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	job := noopJob("gone", 1, 0)
	job.ID = "aaaaaaaaaa"
	if err := h.Put(job, 1); err != nil {
		t.Fatal(err)
	}
	if ok, err := h.Withdraw(job.ID, "by me"); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if ok, _ := h.Withdraw(job.ID, "by me"); ok {
		t.Error("withdrawn twice")
	}
	if ok, _ := h.Drop(job.ID, false); ok {
		t.Error("dropped as if it had been accepted")
	}
	if h, err = Open(dir, nil); err != nil || len(h.List()) != 0 || len(h.Withdrawals()) != 1 || h.Withdrawals()[0].Withdrawn != "by me" {
		t.Fatalf("%+v, %v", h, err)
	}
	if ok, err := h.Drop(job.ID, true); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if h, err = Open(dir, nil); err != nil || len(h.Withdrawals()) != 0 {
		t.Fatalf("%+v, %v", h, err)
	}
}

func TestAHeldJobIsSignedWhenItIsTaken(t *testing.T) {
	p, other := newSigner(t), newSigner(t)
	dir := filepath.Join(t.TempDir(), "held")
	before, err := Open(dir, nil) // as version 0.1 wrote it
	if err != nil {
		t.Fatal(err)
	}
	old, young := jobNamed("old"), jobNamed("young")
	if err := before.Put(old, 1); err != nil {
		t.Fatal(err)
	}
	h, err := Open(dir, p)
	if err != nil || len(h.List()) != 1 || h.List()[0].Signed == nil {
		t.Fatalf("a job held by 0.1 is this peer's own, and signed now: %+v, %v", h, err)
	}
	if err := h.Put(young, 2); err != nil {
		t.Fatal(err)
	}
	if h, err = Open(dir, p); err != nil || len(h.List()) != 2 {
		t.Fatal(err)
	}
	for _, j := range h.List() {
		if c, err := p.Open(*j.Signed); err != nil || c.Submit.ID != j.Job.ID || c.From != p.Self {
			t.Errorf("%+v, %v", c, err)
		}
	}
	if _, err := Open(dir, other); err == nil {
		t.Error("another peer takes it for its own")
	}
	rec := h.List()[1]
	rec.Job.Run.Noop, rec.Job.Name = nil, "changed"
	if err := h.write(rec); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, p); err == nil {
		t.Error("a job that was changed on disk is taken for the one that was signed")
	}
}
