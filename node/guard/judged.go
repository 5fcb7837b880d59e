package guard

import (
	"strconv"
	"sync"

	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/trust/audit"
	"github.com/coveyproject/covey/trust/policy"
)

// mostJudged is of how many judgements is remembered that they were written down.
const mostJudged = 4096

// judgements writes down what the policy decided: once for each job, signer, rule and reason, and
// not for each of its tasks.
type judgements struct {
	log *audit.Log

	mu   sync.Mutex
	seen map[judgement]bool
}

type judgement struct {
	job     taskstate.JobID
	version int
	by      taskstate.PeerID
	why     policy.Reason
}

// note is called when a task was let in, or refused.
func (j *judgements) note(l *taskstate.Launch, by taskstate.PeerID, why policy.Reason) {
	key := judgement{job: l.Task.Job, by: by, why: why}
	if l.Job != nil {
		key.version = l.Job.Version
	}
	j.mu.Lock()
	again := j.seen[key]
	if !again {
		if j.seen == nil || len(j.seen) >= mostJudged {
			j.seen = map[judgement]bool{}
		}
		j.seen[key] = true
	}
	j.mu.Unlock()
	if again {
		return
	}
	r := audit.Record{What: audit.OrderTaken, By: by, Job: string(l.Task.Job), Task: l.Task.String()}
	if why.Rule > 0 {
		r.Rule = strconv.Itoa(why.Rule)
	}
	if why.Text != "" {
		r.What, r.Detail = audit.OrderRefused, why.Text
	}
	j.log.Write(r)
}
