package ledger

import "covey/taskstate"

// weigh estimates the bytes a finished job occupies.
func (j *JobRecord) weigh() int {
	const cellBytes, pastBytes, sideBytes = 48, 64, 160
	w := 512 + j.slots.touched()*cellBytes + len(j.sides)*sideBytes + specBytes(j.job)
	if j.long != nil {
		for v, spec := range j.long.versions {
			if v != j.job.Version {
				w += specBytes(spec)
			}
		}
	}
	for _, list := range j.past {
		w += pastBytes * (1 + len(list))
		for i := range list {
			if e := list[i].end; e != nil {
				w += pastBytes + len(e.Reason) + len(e.Message)
			}
		}
	}
	for _, f := range j.forms.list {
		w += 128 + len(f.Reason) + len(f.Message)
	}
	return w
}

// touched is how many cells exist, or would in a state that was restored: a job that has grown since makes them as they are needed.
func (t *slotTable) touched() int {
	n := 0
	for i := range t.chunks {
		if t.chunks[i].cells != nil {
			n += min(chunkSize, t.count-i*chunkSize)
		}
	}
	return n
}

// specBytes estimates what a spec occupies.
func specBytes(job *taskstate.Job) (w int) {
	const stringBytes = 16
	for _, x := range job.Each {
		w += stringBytes + len(x)
	}
	for _, a := range job.Matrix {
		w += 3*stringBytes + len(a.Name)
		for _, x := range a.Values {
			w += stringBytes + len(x)
		}
	}
	for _, x := range job.Constraints {
		w += stringBytes + len(x)
	}
	if p := job.Run.Process; p != nil {
		w += len(p.Script)
		for _, x := range p.Command {
			w += stringBytes + len(x)
		}
		for k, v := range p.Env {
			w += 2*stringBytes + len(k) + len(v)
		}
	}
	return w
}
