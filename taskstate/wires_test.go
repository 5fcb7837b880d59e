package taskstate_test

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/coveyproject/covey/internal/golden"
	. "github.com/coveyproject/covey/taskstate"
)

func TestBatchesAreAsTheirVersionHasThem(t *testing.T) {
	golden.Wires(t, "wires.txt", golden.Wire{Name: "/covey/status/1", Frames: map[string]any{"batch": &Batch{}}})
}

// signedJob says something of everything a job of the first dialect has. Keys that came later are
// not in it: what was signed without them has to look as it did.
func signedJob(t *testing.T) *Job {
	t.Helper()
	b, err := os.ReadFile("testdata/signed-job.json")
	if err != nil {
		t.Fatal(err)
	}
	var j Job
	if err := json.Unmarshal(b, &j); err != nil {
		t.Fatal(err)
	}
	return &j
}

// A signature over a job holds only where the same is made of the job again: by every version that
// is given it, as long as its order is good.
func TestWhatAnOrderSignsIsAsEveryVersionHasIt(t *testing.T) {
	order := func(j *Job) (said string) {
		err := SignOrder(j, "cluster", "peer", 1, []byte{2}, func(data []byte) ([]byte, error) {
			said = fmt.Sprintf("%x", data)
			return []byte{3}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return said
	}
	j := signedJob(t)
	golden.Freeze(t, "signed order 1", order(j))
	bare, run := j.Bare(), j.RunAt(4)
	golden.Freeze(t, "digest of an order 1", fmt.Sprintf("%x", j.Order.Digest()))
	golden.Freeze(t, "withheld 1", fmt.Sprintf("%x", bare.Withheld.Does))
	golden.Freeze(t, "submission 1", fmt.Sprintf("%x", j.SubmissionDigest()))
	golden.Freeze(t, "run of a schedule 1", string(run.ID))
	err := CheckOrder(&run, "cluster", 0, func(_ PeerID, data, _ []byte) error {
		golden.Freeze(t, "signed order 1", fmt.Sprintf("%x", data))
		return nil
	})
	if err != nil {
		t.Errorf("a run of it: %v", err)
	}
	j.Each = nil
	golden.Freeze(t, "signed order 1 without items", order(j))
}
