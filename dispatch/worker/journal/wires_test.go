package journal

import (
	"fmt"
	"testing"

	"github.com/coveyproject/covey/internal/golden"
	"github.com/coveyproject/covey/taskstate"
)

func TestRecordsAreAsTheirFormatHasThem(t *testing.T) {
	golden.Wires(t, "wires.txt", golden.Wire{Name: fmt.Sprint("worker.db format ", Format), Frames: map[string]any{
		"meta owner": &Owner{}, "meta state": &State{}, "meta start": new(uint64), "frames": &Frame{}, "done": &[]uint32{}, "jobs": &taskstate.Job{},
		"batches": &Batch{}, "tombs": &taskstate.TaskID{}, "live": &taskstate.Status{},
	}})
}
