package care

import (
	"context"
	"fmt"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/spell"
)

// Report tells people how it stands with what is kept here.
type Report struct {
	Self    taskstate.PeerID
	Care    *Care
	Replica Replica
	Who     Names
}

// Names are what people call peers.
type Names interface {
	Name(taskstate.PeerID) string
	Sorted([]taskstate.PeerID) []string
}

// Jobs says how it stands with what tasks left here.
func (d *Report) Jobs(ctx context.Context) (out []api.JobFiles, err error) {
	kept, err := d.Care.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	for _, k := range kept {
		x := api.JobFiles{
			Job: string(k.Job), Home: k.Home, Tasks: k.Tasks, Bytes: k.Bytes, Coming: k.Coming, Copies: k.Copies, Keep: k.Keep, Only: k.Sole,
		}
		d.Replica.Read(func(s *ledger.State) {
			if j, ok := s.Job(k.Job); ok {
				x.Name = j.Job().Name
			}
		})
		if k.Copies < k.Keep {
			x.Why = d.whyFew(k)
		}
		out = append(out, x)
	}
	return out, nil
}

// whyFew says why there are fewer copies of something than there are to be.
func (d *Report) whyFew(k Kept) string {
	switch {
	case k.Coming > 0:
		return "not all of it is here yet"
	case k.Alone:
		return "no other peer that is connected may read, and so keep, it"
	case len(k.Not) > 0:
		return spell.Enumerate(d.Who.Sorted(k.Not)) + " cannot keep it: no room, or no storage for others"
	}
	return "another copy is under way"
}

// HandOver has others keep what only this peer has, before it leaves. The error says what nobody
// takes.
func (d *Report) HandOver(ctx context.Context) error {
	left, err := d.Care.HandOver(ctx)
	if err != nil {
		return err
	}
	if len(left) == 0 {
		return nil
	}
	const few = 5
	var jobs []string
	var tasks int
	var bytes int64
	for _, k := range left {
		tasks, bytes = tasks+k.Sole, bytes+k.Bytes
		if len(jobs) < few {
			jobs = append(jobs, string(k.Job))
		}
	}
	if more := len(left) - len(jobs); more > 0 {
		jobs = append(jobs, fmt.Sprintf("%d more", more))
	}
	return api.Errorf(api.Conflict, "this peer did not leave: it has the only copy of what %d of the tasks of %s left (%d MiB), and %s. Bring that to you first with `peer get JOB`, or let another peer join; "+
		"to lose it, type `peer down` here and `peer remove %s` at another peer", tasks, spell.Enumerate(jobs), (bytes+1<<20-1)>>20, d.whyFew(left[0]), d.Who.Name(d.Self))
}
