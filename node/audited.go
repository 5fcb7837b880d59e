package node

import (
	"fmt"
	"sync"

	"covey/node/api"
	"covey/taskstate"
	"covey/trust/audit"
)

// AuditLog is the name, in the data folder, of the log of what a peer did in others' names.
const AuditLog = "audit.log"

// openAudit makes the log. A disk that takes nothing of it keeps nobody from working: the peer says
// so.
func (n *Node) openAudit() {
	n.audit = audit.New(audit.Config{Path: n.folder.path(AuditLog), Now: n.cfg.Now, Trouble: func(err error) {
		if err == nil {
			n.troubles.Clear(n.self, api.TroubleAuditStops)
			n.log.Info("the audit log is written again")
			return
		}
		text := fmt.Sprintf("the audit log is not written (%v): what this peer does in others' names is not noted until there is room on its disk; how much was lost will stand in it", err)
		if n.troubles.Set(n.self, api.TroubleAuditStops, text) {
			n.log.Error(text)
		}
	}})
	n.judgement.log = n.audit
	n.audit.Write(audit.Record{What: audit.Began, By: n.self, Detail: "version " + n.cfg.Version})
}

// noted writes down a call of the local API.
func (n *Node) noted(c api.Noted) {
	r := audit.Record{What: audit.API, Call: c.Call, Outcome: "done", By: c.Caller.As, Task: c.Caller.Task, PID: c.Caller.PID}
	if c.Caller.UID >= 0 {
		r.UID = &c.Caller.UID
	}
	if c.Err != nil {
		r.Outcome, r.Detail = string(c.Err.Code), c.Err.Message
	}
	n.audit.Write(r)
}

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
	job        taskstate.JobID
	version    int
	by         taskstate.PeerID
	rule, text string
}

// note is called when a task was let in, or refused: then why is not "".
func (j *judgements) note(l *taskstate.Launch, by taskstate.PeerID, rule, why string) {
	key := judgement{job: l.Task.Job, by: by, rule: rule, text: why}
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
	r := audit.Record{What: audit.OrderTaken, By: by, Job: string(l.Task.Job), Task: l.Task.String(), Rule: rule}
	if why != "" {
		r.What, r.Detail = audit.OrderRefused, why
	}
	j.log.Write(r)
}
