package top

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/coveyproject/covey/node/api"
)

// Peer is what is asked; client.Client is one.
type Peer interface {
	Peers(ctx context.Context) (api.Peers, error)
	SomeJobs(ctx context.Context, q api.JobQuery) (api.Jobs, error)
	Job(ctx context.Context, id string) (api.JobAnswer, error)
	Story(ctx context.Context, limit int) (api.Story, error)
	SomeTasks(ctx context.Context, id string, q api.TaskQuery) (api.Tasks, error)
	Logs(ctx context.Context, id string, q api.LogQuery, send func(api.LogChunk) error) error
	Cancel(ctx context.Context, id string) (api.JobAnswer, error)
	SetAvailability(ctx context.Context, peer string, a api.Availability) (api.PeerAnswer, error)
}

const (
	every   = time.Second
	patient = 5 * time.Second // with an answer
	tail    = 200             // lines of output of each stream of one task
	some    = 8               // tasks of a job whose output is shown together
	goOn    = 500             // jobs that do, the newest
	areOver = 100             // jobs, the newest
	longest = 4 << 10         // bytes of a line that are kept
)

// Run shows the screen until somebody leaves it.
func Run(ctx context.Context, p Peer, in io.Reader, out io.Writer, colour bool) error {
	t := &terminal{ctx: ctx, peer: p, m: &Model{Colour: colour}, ends: map[Want]context.CancelFunc{}}
	_, err := tea.NewProgram(t, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out)).Run()
	if errors.Is(err, tea.ErrInterrupted) || errors.Is(err, tea.ErrProgramKilled) {
		return ctx.Err()
	}
	return err
}

// terminal joins a Model with bubbletea, which calls it from one goroutine.
type terminal struct {
	ctx  context.Context //nolint:containedctx // of the one Run
	peer Peer
	m    *Model
	ends map[Want]context.CancelFunc // of the newest question about tasks, and about logs
	next tick                        // the one that counts
}

type tick int

// Init implements tea.Model.
func (t *terminal) Init() tea.Cmd { return t.asks(t.m.Tick()) }

// Update implements tea.Model.
func (t *terminal) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		t.m.Width, t.m.Height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		return t, t.asks(t.m.Key(msg.String()))
	case tick:
		if msg == t.next {
			return t, t.asks(t.m.Tick())
		}
	case Seen:
		t.m.Seen(msg)
		if msg.Of.What == Overview { // it is asked for again a second after the newest answer
			t.next++
			next := t.next
			return t, tea.Tick(every, func(time.Time) tea.Msg { return next })
		}
	}
	return t, nil
}

// View implements tea.Model.
func (t *terminal) View() tea.View {
	v := tea.NewView(strings.Join(t.m.Lines(), "\n"))
	v.AltScreen = true
	return v
}

func (t *terminal) asks(asks []Ask) tea.Cmd {
	var out []tea.Cmd
	for _, a := range asks {
		if a.What == Quit {
			return tea.Quit
		}
		ctx, cancel := context.WithTimeout(t.ctx, patient)
		if a.What == Tasks || a.What == Logs {
			if end := t.ends[a.What]; end != nil {
				end() // nobody waits for it any more
			}
			t.ends[a.What] = cancel
		}
		out = append(out, func() tea.Msg {
			defer cancel()
			return Answer(ctx, t.peer, a)
		})
	}
	return tea.Batch(out...)
}

// Answer asks the peer.
func Answer(ctx context.Context, p Peer, a Ask) (s Seen) {
	switch a.What {
	case Overview:
		s = look(ctx, p)
	case Tasks:
		s.Tasks, s.Err = tasksOf(ctx, p, a.ID)
	case Logs:
		s.Logs, s.Err = logsOf(ctx, p, a.ID)
	case Cancel:
		_, s.Err = p.Cancel(ctx, a.ID)
		s.Done = "cancelled: what runs is being stopped"
	case Drain:
		_, s.Err = p.SetAvailability(ctx, a.ID, api.Availability{Availability: api.Drained})
		s.Done = "drained: what it has goes elsewhere"
	case Activate:
		_, s.Err = p.SetAvailability(ctx, a.ID, api.Availability{Availability: api.Active})
		s.Done = "it takes tasks again"
	}
	s.Of, s.At = a, time.Now()
	return s
}

func look(ctx context.Context, p Peer) (s Seen) {
	peers, err := p.Peers(ctx)
	if err != nil {
		return Seen{Err: err}
	}
	var jobs []api.Job
	for _, q := range []api.JobQuery{
		{States: []string{"held", "pending", "running"}, Limit: goOn},
		{States: []string{"complete", "failed", "cancelled"}, Limit: areOver},
	} {
		js, err := p.SomeJobs(ctx, q)
		if err != nil {
			return Seen{Err: err}
		}
		jobs = append(jobs, js.Jobs...)
	}
	story, err := p.Story(ctx, storyLines)
	if err != nil {
		return Seen{Err: err}
	}
	return Seen{Peers: &peers, Jobs: jobs, Story: story.Story}
}

// shown are the failures of a job, then what runs, then the slowest; so many of each, the first
// kinds alone if they are enough.
func shown(ctx context.Context, p Peer, id string, each, enough int) (out []api.Task, err error) {
	for _, q := range []api.TaskQuery{
		{States: []string{"failed", "rejected", "orphaned"}, Sort: "-ended", Limit: each},
		{States: []string{"running", "saving"}, Sort: "started", Limit: each},
		{States: []string{"complete"}, Sort: "-took", Limit: each},
	} {
		if len(out) >= enough {
			break
		}
		ts, err := p.SomeTasks(ctx, id, q)
		if err != nil {
			return nil, err
		}
		out = append(out, ts.Tasks...)
	}
	return out, nil
}

func tasksOf(ctx context.Context, p Peer, id string) (*TasksOf, error) {
	tasks, err := shown(ctx, p, id, 20, 60)
	if err != nil {
		return nil, err
	}
	out := &TasksOf{Job: id, Tasks: tasks}
	if j, err := p.Job(ctx, id); err == nil { // without it nothing is said of peers
		out.Slow = j.Job.Pace.Slow(span)
	}
	return out, nil
}

// line is one of a task's output.
type line struct {
	at   time.Time
	text string
}

// logsOf are the newest lines of one task, or of some of a job: each with its task in front, by the
// time they were written. What is there when time is up is shown.
func logsOf(ctx context.Context, p Peer, id string) (*LogsOf, error) {
	if strings.Contains(id, ".") {
		lines, err := linesOf(ctx, p, id, tail)
		if err != nil && len(lines) == 0 {
			return nil, err
		}
		return &LogsOf{ID: id, Tasks: 1, Lines: inOrder(lines)}, nil
	}
	tasks, err := shown(ctx, p, id, some, some)
	if err != nil {
		return nil, err
	}
	tasks = tasks[:min(len(tasks), some)]
	out := &LogsOf{ID: id, Tasks: len(tasks)}
	read, failed := make([][]line, len(tasks)), make([]error, len(tasks))
	var asking sync.WaitGroup
	for i := range tasks {
		asking.Go(func() {
			t := &tasks[i]
			read[i], failed[i] = linesOf(ctx, p, t.ID, tail/some)
			for k := range read[i] {
				read[i][k].text = api.ShortTask(t.Called()) + "  " + read[i][k].text
			}
		})
	}
	asking.Wait()
	all := slices.Concat(read...)
	if len(all) == 0 {
		return out, cmp.Or(failed...)
	}
	out.Lines = inOrder(all)
	return out, nil
}

func inOrder(all []line) (out []string) {
	slices.SortStableFunc(all, func(a, b line) int { return a.at.Compare(b.at) })
	for _, l := range all {
		out = append(out, l.text)
	}
	return out
}

// linesOf are the last lines of each stream of a task.
func linesOf(ctx context.Context, p Peer, task string, n int) (out []line, err error) {
	rest := map[string]line{} // of each stream what has no end yet
	job, _, one := strings.Cut(task, ".")
	q := api.LogQuery{Tail: n, Times: true}
	if one {
		q.Task = task
	}
	err = p.Logs(ctx, job, q, func(c api.LogChunk) error {
		l := rest[c.Stream]
		if c.At != nil {
			l.at = *c.At
		}
		for part := range bytes.Lines(c.Data) {
			text, whole := strings.CutSuffix(string(part), "\n")
			if l.text += text; len(l.text) > longest {
				l.text = l.text[:longest]
			}
			if whole {
				out = append(out, l)
				l.text = ""
			}
		}
		rest[c.Stream] = l
		if c.Note != "" {
			out = append(out, line{l.at, "(" + c.Note + ")"})
		}
		if c.Error != nil {
			return c.Error
		}
		return nil
	})
	for _, stream := range slices.Sorted(maps.Keys(rest)) {
		if l := rest[stream]; l.text != "" {
			out = append(out, l)
		}
	}
	return out, err
}
