package ledger

import "covey/taskstate"

// Pin has a job kept when it is over, whatever its age and however many there are, or, with Not, ends that. With MaxPins of them another one is
// refused with CodeInvalid.
type Pin struct {
	Job taskstate.JobID `cbor:"1,keyasint"`
	Not bool            `cbor:"2,keyasint,omitempty"`
}

func (s *State) pin(c *Pin) Result {
	j, ok := s.jobs[c.Job]
	switch {
	case !ok:
		return Result{Refused: CodeUnknown}
	case j.pinned == !c.Not:
		return Result{Existed: true}
	case !c.Not && s.pins() >= MaxPins:
		return Result{Refused: CodeInvalid}
	}
	j.pinned = !c.Not
	return Result{}
}

func (s *State) pins() (n int) {
	for _, j := range s.order {
		if j.pinned {
			n++
		}
	}
	return n
}

// Pinned tells whether the job is kept because somebody said so.
func (j *JobRecord) Pinned() bool { return j.pinned }
