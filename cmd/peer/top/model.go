// Package top is a screen of the cluster for a terminal: peers, jobs, what happened, output; and a
// few changes, each of which is asked for twice.
//
// Model is pure: Key and Seen change it and return what is to be asked of the peer, Lines draws it.
// Run joins it with a terminal (bubbletea) and a peer. A screen has exactly as many lines as the
// terminal, each at most as wide; below 40×8 it only says so.
package top

import (
	"slices"
	"strings"
	"time"

	"github.com/coveyproject/covey/node/api"
)

// Ask is what a Model wants of the peer.
type Ask struct {
	What Want
	ID   string // of a job, a task or a peer
}

// Want is a kind of Ask.
type Want int

// The kinds.
const (
	Overview Want = iota // peers, jobs, story: Seen.Peers and so on
	Tasks                // a job's failures and slowest tasks, and which peers are slow: Seen.Tasks
	Logs                 // the newest lines of a task, or of some of a job: Seen.Logs
	Cancel
	Drain
	Activate
	Quit
)

// Seen is an answer. What is nil was not asked for.
type Seen struct {
	Of    Ask // what was asked
	At    time.Time
	Err   error
	Peers *api.Peers
	Jobs  []api.Job
	Story []api.StoryEvent
	Tasks *TasksOf
	Logs  *LogsOf
	Done  string // what was changed
}

// TasksOf are tasks of one job, and sentences about peers that are slow at them.
type TasksOf struct {
	Job   string
	Tasks []api.Task
	Slow  []string
}

// LogsOf are the newest lines of a task, or of some tasks of a job: these name their task.
type LogsOf struct {
	ID    string
	Tasks int // that they are of
	Lines []string
}

type page int

const (
	overview page = iota
	jobPage
	peerPage
	logPage
	helpPage
)

// Model is what is on the screen.
type Model struct {
	Width, Height int
	Colour        bool
	Self          string // name of the peer that is asked, once known

	peers  api.Peers
	jobs   []api.Job
	story  []api.StoryEvent
	at     time.Time // of the newest overview
	wrong  string    // why the newest question was not answered
	said   string    // what the last key did
	tasks  []api.Task
	slow   []string
	task   string // id of the selected one
	logs   LogsOf
	scroll int // lines of output above the newest that is shown

	under map[Want]string // questions about tasks and logs that are not answered, by what they are about

	page     page
	before   page   // where esc leads from logs and help
	chosen   string // key of the selected row
	open     string // the row whose page is shown
	find     string // only rows with this in their name
	typing   bool   // of find
	asking   *Ask   // waits for y, after this question
	question string

	paces map[string][]sample  // of jobs, the newest last
	use   map[string][]float64 // of peers: share of their processors that was busy
}

// sample is how many tasks of a job had ended at a moment.
type sample struct {
	at   time.Time
	done int
}

const (
	paceSpan = 30 * time.Second
	useKept  = 60
)

// row is what can be selected.
type row struct {
	key  string
	peer *api.Peer
	job  *api.Job
	task *api.Task
}

// rows are all that can be selected, peers first, those that run before those that are over.
func (m *Model) rows() (out []row) {
	for i := range m.peers.Peers {
		if p := &m.peers.Peers[i]; m.finds(p.Name) {
			out = append(out, row{key: "p" + p.ID, peer: p})
		}
	}
	for _, over := range []bool{false, true} {
		for i := range m.jobs {
			if j := &m.jobs[i]; j.Over() == over && m.finds(j.Name+" "+j.ID) {
				out = append(out, row{key: "j" + j.ID, job: j})
			}
		}
	}
	return out
}

func (m *Model) finds(name string) bool {
	return m.find == "" || strings.Contains(strings.ToLower(name), strings.ToLower(m.find))
}

// selected is the place of the selected row; the first one if that is gone. -1: there is none.
func (m *Model) selected(rows []row) int {
	if i := slices.IndexFunc(rows, func(r row) bool { return r.key == m.chosen }); i >= 0 || len(rows) == 0 {
		return i
	}
	return 0
}

// current is the row that keys are about.
func (m *Model) current() (row, bool) {
	rows := m.rows()
	if m.page != overview {
		if i := slices.IndexFunc(rows, func(r row) bool { return r.key == m.open }); i >= 0 {
			return rows[i], true
		}
		return row{}, false
	}
	if i := m.selected(rows); i >= 0 {
		return rows[i], true
	}
	return row{}, false
}

// taskRows are the tasks that can be selected on the page of a job.
func (m *Model) taskRows() (out []row) {
	for i := range m.tasks {
		out = append(out, row{key: m.tasks[i].ID, task: &m.tasks[i]})
	}
	return out
}

// chosenTask is the place of the selected task; -1: there is none.
func (m *Model) chosenTask() int {
	i := slices.IndexFunc(m.tasks, func(t api.Task) bool { return t.ID == m.task })
	return max(i, min(0, len(m.tasks)-1))
}

// once asks what is not being asked already: an answer may take longer than a second. What is asked
// about something else takes the place of the question before.
func (m *Model) once(a Ask) []Ask {
	if id, busy := m.under[a.What]; busy && id == a.ID {
		return nil
	}
	if m.under == nil {
		m.under = map[Want]string{}
	}
	m.under[a.What] = a.ID
	return []Ask{a}
}

// awaited tells whether an answer is one that is still wanted.
func (m *Model) awaited(a Ask) bool {
	if a.What != Tasks && a.What != Logs {
		return true
	}
	if id, busy := m.under[a.What]; !busy || id != a.ID {
		return false
	}
	delete(m.under, a.What)
	return true
}

// Seen takes an answer in.
func (m *Model) Seen(s Seen) {
	if !m.awaited(s.Of) {
		return
	}
	if s.Err != nil {
		m.wrong = clean(s.Err.Error())
		return
	}
	m.wrong = ""
	if s.Done != "" {
		m.said = s.Done
	}
	if s.Peers != nil {
		m.peers, m.jobs, m.story, m.at = *s.Peers, s.Jobs, s.Story, s.At
		m.measure()
	}
	if s.Tasks != nil && "j"+s.Tasks.Job == m.open {
		m.tasks, m.slow = s.Tasks.Tasks, s.Tasks.Slow
	}
	if s.Logs != nil && s.Logs.ID == m.logs.ID {
		m.logs = *s.Logs
		m.scroll = min(m.scroll, max(0, len(m.logs.Lines)-1))
	}
}

// measure remembers how far jobs are and how much peers do, to tell how fast that changes.
func (m *Model) measure() {
	paces, use := map[string][]sample{}, map[string][]float64{}
	for i := range m.jobs {
		j := &m.jobs[i]
		if j.Over() {
			continue
		}
		s := append(m.paces[j.ID], sample{m.at, ended(j)})
		for len(s) > 2 && m.at.Sub(s[0].at) > paceSpan {
			s = s[1:]
		}
		paces[j.ID] = s
	}
	for i := range m.peers.Peers {
		p := &m.peers.Peers[i]
		if p.Self {
			m.Self = p.Name
		}
		part := 0.0
		if p.Load != nil && p.Load.CPU != nil && here(p) {
			part = min(1, max(0, *p.Load.CPU))
		}
		u := append(m.use[p.ID], part)
		use[p.ID] = u[max(0, len(u)-useKept):]
	}
	m.paces, m.use = paces, use
}

// left is how long a job takes at its pace; 0: that cannot be said.
func (m *Model) left(j *api.Job) time.Duration {
	s := m.paces[j.ID]
	if len(s) < 2 {
		return 0
	}
	first, last := s[0], s[len(s)-1]
	done, took := last.done-first.done, last.at.Sub(first.at)
	if done <= 0 || took < time.Second {
		return 0
	}
	return time.Duration(float64(took) / float64(done) * float64(total(j)-last.done))
}

// Tick is what is asked for every second.
func (m *Model) Tick() []Ask {
	asks := []Ask{{What: Overview}}
	switch m.page {
	case jobPage:
		asks = append(asks, m.once(Ask{Tasks, strings.TrimPrefix(m.open, "j")})...)
	case logPage:
		asks = append(asks, m.once(Ask{Logs, m.logs.ID})...)
	}
	return asks
}

func here(p *api.Peer) bool { return p.Standing == "ready" || p.Standing == "suspect" || p.Self }

// ended is how many tasks of a job have.
func ended(j *api.Job) (n int) {
	for _, s := range []string{"complete", "failed", "rejected", "shutdown", "orphaned"} {
		n += j.Tasks[s]
	}
	return n
}

func failed(j *api.Job) int { return j.Tasks["failed"] + j.Tasks["rejected"] + j.Tasks["orphaned"] }

func total(j *api.Job) (n int) {
	for _, k := range j.Tasks {
		n += k
	}
	return n
}
