package stack

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

// restWithin is how long after the last fault, or after the last task was started then, everything
// must have come to rest: the longest task, the longest grace, and the backoffs of raft and
// membership after a long cut.
const restWithin = 90 * time.Second

// rest waits until all peers agree and nothing is left to do (I1, I5, I7), and has them say so.
func (w *world) rest() {
	begin := w.now()
	if w.cfg.Break == BreakLoseFiles {
		w.at(begin+restWithin/9, w.loseFiles)
	}
	person := begin + restWithin/3
	why := "?"
	for why != "" && w.now() < max(begin, w.check.lastStart())+restWithin && !w.broken() {
		w.runUntil(w.now() + 500*time.Millisecond)
		if person != 0 && w.now() > person {
			person = 0
			w.decideForThePerson()
		}
		why = w.unrest()
	}
	if w.broken() {
		return
	}
	if why != "" {
		rule := "I1"
		if w.scarce() == why {
			rule = "I16"
		}
		w.fail(rule, "%v after the last fault not all is at rest: %s", w.now()-begin, why)
		return
	}
	w.tellf("-- at rest")
	w.count(func(s *Stats) { s.Slowest = w.now() - begin })
	w.ends()
	for _, p := range w.peers {
		for _, j := range w.people.jobs {
			if l := p.usable(); l != nil {
				w.people.all[0].look(l, j, j.acked)
			}
		}
	}
}

// decideForThePerson cancels what must not run twice and waits for a person, because a disk went
// that knew whether it ran.
func (w *world) decideForThePerson() {
	l := w.peers[0].usable()
	if !w.orphaned || l == nil {
		return
	}
	jobs, err := l.node.Backend().Jobs(context.Background())
	if err != nil {
		return
	}
	for _, row := range jobs.Jobs {
		i := slices.IndexFunc(w.people.jobs, func(j *work) bool { return string(j.job.ID) == row.ID })
		if i >= 0 && !row.Over() && w.people.jobs[i].job.Unreachable.Wait {
			w.people.all[0].cancel(l, w.people.jobs[i])
		}
	}
}

// unrest says what is not at rest yet, "" if everything is.
func (w *world) unrest() string {
	var first []api.Job
	var up []*life
	for i, p := range w.peers {
		l := p.usable()
		if l == nil {
			return p.name + " is not up"
		}
		up = append(up, l)
		if why := w.unready(l); why != "" {
			return why
		}
		jobs, err := l.node.Backend().Jobs(context.Background())
		if err != nil {
			return fmt.Sprintf("%s does not list its jobs: %v", p.name, err)
		}
		if why := w.unfinished(l, jobs.Jobs); why != "" {
			return why
		}
		slices.SortFunc(jobs.Jobs, func(a, b api.Job) int { return cmp.Compare(a.ID, b.ID) })
		if i == 0 {
			first = jobs.Jobs
		} else if why := unlike(first, jobs.Jobs); why != "" {
			return fmt.Sprintf("%s and %s do not agree: %s", w.peers[0].name, p.name, why)
		}
	}
	if why := unequal(up, first); why != "" {
		return why
	}
	return w.scarce()
}

// unready says what a peer lacks to be whole again: it sees all that are not down, and a
// coordinator.
func (w *world) unready(l *life) string {
	ps, err := l.node.Backend().Peers(context.Background())
	if err != nil {
		return fmt.Sprintf("%s does not list the peers: %v", l.session, err)
	}
	w.check.asked(l, ps)
	if ps.Coordinator == "" {
		return l.session + " knows no coordinator: " + ps.WaitingFor
	}
	if len(ps.Peers) != len(w.peers) {
		return fmt.Sprintf("%s lists %d peers of %d", l.session, len(ps.Peers), len(w.peers))
	}
	for _, p := range ps.Peers {
		if other := w.named(p.Name); p.Standing != "ready" && (other == nil || other.downs == 0) {
			return fmt.Sprintf("%s finds %s %s", l.session, p.Name, p.Standing)
		}
	}
	return ""
}

// unfinished says which job has not ended, or is not there.
func (w *world) unfinished(l *life, rows []api.Job) string {
	have := map[string]bool{}
	var open []taskstate.JobID
	for _, r := range rows {
		have[r.ID] = true
		if !r.Over() {
			open = append(open, taskstate.JobID(r.ID))
		}
	}
	if len(open) > 0 {
		return fmt.Sprintf("%s: not over: %s", l.session, names(open))
	}
	for _, j := range w.people.jobs {
		if (j.acked || j.heldAt != nil && !j.withdrawn) && !have[string(j.job.ID)] {
			open = append(open, j.job.ID)
		}
	}
	if len(open) > 0 {
		return fmt.Sprintf("%s: accepted or held, and not there: %s", l.session, names(open))
	}
	for _, p := range w.peers {
		if tasks, _ := p.running(); len(tasks) > 0 {
			return fmt.Sprintf("%s still runs %v", p.name, tasks)
		}
	}
	return ""
}

func unlike(a, b []api.Job) string {
	if len(a) != len(b) {
		return fmt.Sprintf("%d and %d jobs", len(a), len(b))
	}
	for i := range a {
		x, y := a[i], b[i]
		if x.ID != y.ID || x.State != y.State || x.Cancelled != y.Cancelled || fmt.Sprint(x.Tasks) != fmt.Sprint(y.Tasks) || !sameTime(x.Ended, y.Ended) {
			return fmt.Sprintf("%+v and %+v", x, y)
		}
	}
	return ""
}

func sameTime(a, b *time.Time) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Equal(*b)
}

// unequal says in what the tasks of these jobs differ among processes.
func unequal(lives []*life, jobs []api.Job) string {
	for _, j := range jobs {
		var first []api.Task
		for i, l := range lives {
			ts, err := l.node.Backend().Tasks(context.Background(), j.ID)
			if err != nil {
				return fmt.Sprintf("%s does not list the tasks of %s: %v", l.session, j.ID, err)
			}
			if i == 0 {
				first = ts.Tasks
			} else if a, b := plain(first), plain(ts.Tasks); a != b {
				return fmt.Sprintf("%s and %s do not agree about %s:\n%s\n%s", lives[0].session, l.session, j.ID, a, b)
			}
		}
	}
	return ""
}

func plain(ts []api.Task) (s string) {
	for _, t := range ts {
		exit := "-"
		if t.ExitCode != nil {
			exit = fmt.Sprint(*t.ExitCode)
		}
		s += fmt.Sprintf("%s %s %s exit %s %s %q %v; ", t.ID, t.State, t.PeerName, exit, t.Reason, t.Message, t.At)
	}
	return s
}

// ends holds the ends of all tasks against what the runners did: where nothing happened to a peer,
// its tasks ended as they do.
func (w *world) ends() {
	l := w.peers[0].usable()
	for _, j := range w.people.jobs {
		ts, err := l.node.Backend().Tasks(context.Background(), string(j.job.ID))
		if err != nil || j.cancelled || j.withdrawn {
			continue
		}
		for _, t := range ts.Tasks {
			if t.Output != nil {
				w.count(func(s *Stats) { s.Saved++; s.Copies += t.Output.Copies })
			}
			want, exit := "complete", exitOf(taskstate.Task(j.job.ID, t.Slot, 1))
			if exit != 0 || leavesNothing(&j.job, taskstate.Task(j.job.ID, t.Slot, 1)) {
				want = "failed"
			}
			if t.State == want && t.ExitCode != nil && *t.ExitCode == exit {
				continue
			}
			x := w.check.startOf(t.ID)
			if p := w.named(t.PeerName); p != nil && x != nil && !p.troubled(x.since) && !(p.learned() && t.Reason == string(taskstate.ReasonInterrupted)) {
				w.fail("I1", "%s ended as %s (%s %s) on %s, to which nothing happened; it should be %s", t.ID, t.State, t.Reason, t.Message, p.name, want)
			}
		}
	}
}

// learned tells whether a peer whose journal was hurt has begun a new incarnation, as it says
// itself, after it had become ready. If all who had heard the end of that journal were away then,
// it learns of it when the first of them is back, and stops what it began in between.
func (p *peer) learned() bool {
	l := p.usable()
	if !p.forgot || l == nil || l.anew {
		return false
	}
	st, err := l.node.Backend().Status(context.Background())
	return err == nil && lostJournal(st)
}

func lostJournal(st api.Status) bool {
	return slices.ContainsFunc(st.Troubles, func(t api.Trouble) bool { return t.Code == api.TroubleJournalLost })
}

func (w *world) named(name string) *peer {
	for _, p := range w.peers {
		if p.name == name {
			return p
		}
	}
	return nil
}

func (c *check) startOf(id string) *proc {
	t, err := taskstate.ParseTaskID(id)
	if err != nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.starts[t]
}
