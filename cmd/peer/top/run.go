package top

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/coveyproject/covey/node/api"
)

// Peer is what is asked; client.Client is one.
type Peer interface {
	Peers(ctx context.Context) (api.Peers, error)
	Jobs(ctx context.Context) (api.Jobs, error)
	Story(ctx context.Context, limit int) (api.Story, error)
	SomeTasks(ctx context.Context, id string, q api.TaskQuery) (api.Tasks, error)
	Logs(ctx context.Context, id string, q api.LogQuery, send func(api.LogChunk) error) error
	Cancel(ctx context.Context, id string) (api.JobAnswer, error)
	SetAvailability(ctx context.Context, peer string, a api.Availability) (api.PeerAnswer, error)
}

const (
	every   = time.Second
	patient = 5 * time.Second // with an answer
	tail    = 200             // lines of output of each stream
)

// Run shows the screen until somebody leaves it.
func Run(ctx context.Context, p Peer, in io.Reader, out io.Writer, colour bool) error {
	t := &terminal{ctx: ctx, peer: p, m: &Model{Colour: colour}}
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
}

type tick struct{}

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
		return t, t.asks(t.m.Tick())
	case Seen:
		t.m.Seen(msg)
		if msg.Peers != nil || msg.Err != nil && msg.At.IsZero() { // the overview was answered, or not: then it is asked for again
			return t, tea.Tick(every, func(time.Time) tea.Msg { return tick{} })
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
		out = append(out, func() tea.Msg {
			ctx, cancel := context.WithTimeout(t.ctx, patient)
			defer cancel()
			return Answer(ctx, t.peer, a)
		})
	}
	return tea.Batch(out...)
}

// Answer asks the peer. An error that has a time is not the overview's.
func Answer(ctx context.Context, p Peer, a Ask) Seen {
	s := Seen{}
	switch a.What {
	case Overview:
		return look(ctx, p)
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
	s.At = time.Now()
	return s
}

func look(ctx context.Context, p Peer) (s Seen) {
	peers, err := p.Peers(ctx)
	if err != nil {
		return Seen{Err: err}
	}
	jobs, err := p.Jobs(ctx)
	if err != nil {
		return Seen{Err: err}
	}
	story, err := p.Story(ctx, storyLines)
	if err != nil {
		return Seen{Err: err}
	}
	return Seen{At: time.Now(), Peers: &peers, Jobs: jobs.Jobs, Story: story.Story}
}

// tasksOf are the failures of a job, then what runs, then the slowest.
func tasksOf(ctx context.Context, p Peer, id string) (*TasksOf, error) {
	out := &TasksOf{Job: id}
	for _, q := range []api.TaskQuery{
		{States: []string{"failed", "rejected", "orphaned"}, Sort: "-ended", Limit: 20},
		{States: []string{"running", "saving"}, Sort: "started", Limit: 20},
		{States: []string{"complete"}, Sort: "-took", Limit: 20},
	} {
		ts, err := p.SomeTasks(ctx, id, q)
		if err != nil {
			return nil, err
		}
		out.Tasks = append(out.Tasks, ts.Tasks...)
	}
	return out, nil
}

// logsOf is the end of a job's output. What is there when time is up is shown.
func logsOf(ctx context.Context, p Peer, id string) (*LogsOf, error) {
	var text bytes.Buffer
	err := p.Logs(ctx, id, api.LogQuery{Tail: tail}, func(c api.LogChunk) error {
		text.Write(c.Data)
		if over := text.Len() - 1<<20; over > 0 {
			text.Next(over)
		}
		return nil
	})
	if err != nil && text.Len() == 0 {
		return nil, err
	}
	lines := strings.Split(strings.TrimRight(text.String(), "\n"), "\n")
	if text.Len() == 0 {
		lines = nil
	}
	return &LogsOf{Job: id, Lines: lines[max(0, len(lines)-5*tail):]}, nil
}
