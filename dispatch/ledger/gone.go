package ledger

import "covey/taskstate"

// GoneFor is why a job that was over is not kept any more; 0 if that is not known.
type GoneFor uint8

// The reasons.
const (
	GoneForAge   GoneFor = iota + 1 // it ended too long ago
	GoneForCount                    // too many ended after it
	GoneForSize                     // all together took too much room
)

// Gone is why and when, by the ledger's clock, a job was forgotten.
type Gone struct {
	_   struct{} `cbor:",toarray"`
	For GoneFor
	At  int64
}

// goneJobs remembers the ids of forgotten jobs, the newest KeepGone of them.
type goneJobs struct {
	ids []taskstate.JobID
	why map[taskstate.JobID]Gone
}

func newGoneJobs() goneJobs { return goneJobs{why: map[taskstate.JobID]Gone{}} }

func (g *goneJobs) have(id taskstate.JobID) bool {
	_, have := g.why[id]
	return have
}

func (g *goneJobs) add(id taskstate.JobID, why Gone) {
	if len(g.ids) >= KeepGone {
		delete(g.why, g.ids[0])
		g.ids = g.ids[1:]
	}
	g.ids = append(g.ids, id)
	g.why[id] = why
}

// reasons are why the jobs in ids are gone.
func (g *goneJobs) reasons() []Gone {
	out := make([]Gone, len(g.ids))
	for i, id := range g.ids {
		out[i] = g.why[id]
	}
	return out
}

// Forgotten is a finished job that is not kept any more, and how it had ended.
type Forgotten struct {
	Job   taskstate.JobID
	State taskstate.State
}
