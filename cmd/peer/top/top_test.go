package top

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"

	"github.com/coveyproject/covey/internal/golden"
	"github.com/coveyproject/covey/node/api"
)

var noon = time.Date(2026, 11, 3, 14, 2, 11, 0, time.UTC)

// cluster is a small cluster in which something goes on; done is how far its array is.
func cluster(at time.Time, done int) Seen {
	ended := at.Add(-3 * time.Minute)
	peers := []api.Peer{
		{ID: "12D3m", Name: "mini", Standing: "ready", Availability: "active", Self: true, Path: "self", CPUs: 4, CPUsRunning: 1.2, Memory: 8 << 30, MemoryUsed: 1 << 30, Tasks: 3, Version: "0.2.0", OS: "linux", Arch: "arm64", Roles: []string{"run", "submit"}, Labels: map[string]string{"room": "attic"}, Load: &api.Load{CPU: new(0.31), Memory: new(int64(5 << 30)), MemoryOf: 8 << 30, Average: new(1.52)}},
		{ID: "12D3n", Name: "nas", Standing: "ready", Availability: "active", Coordinator: true, Voter: true, Path: "direct", RTT: 0.003, CPUs: 8, CPUsRunning: 6.4, CPUsQueued: 1, Tasks: 14, Load: &api.Load{CPU: new(0.94)}},
		{ID: "12D3p", Name: "pi", Standing: "unreachable", Availability: "active", Path: "none", CPUs: 4, Age: 41, Tasks: 9},
		{ID: "12D3w", Name: "workshop-with-a-long-name", Standing: "ready", Availability: "drain", Path: "relayed", RTT: 0.0871, CPUs: 2},
	}
	jobs := []api.Job{
		{ID: "render5eqob", Name: "render", Type: "batch", State: "running", Count: 600, Tasks: map[string]int{"complete": done - 10, "failed": 10, "running": 17, "pending": 600 - done - 17}},
		{ID: "train7ab", Name: "train-gpu", Type: "batch", State: "pending", Count: 1, Tasks: map[string]int{"pending": 1}, Waiting: "no peer has label gpu=a100"},
		{ID: "web33", Name: "web", Type: "service", State: "running", Wanted: 3, Tasks: map[string]int{"running": 3}},
		{ID: "old11", Name: "million", Type: "batch", State: "complete", Tasks: map[string]int{"complete": 20000}, Ended: &ended},
	}
	story := []api.StoryEvent{
		{Time: at.AddDate(0, 0, -1), Text: "nas was elected coordinator (epoch 1/3)"},
		{Time: at.Add(-41 * time.Second), Text: "pi; unreachable with 9 tasks that had not ended"},
		{Time: at.Add(-31 * time.Second), Text: "render: 9 tasks given up: unreachable"},
	}
	return Seen{At: at, Peers: &api.Peers{Peers: peers, Coordinator: "12D3n", Epoch: "1/3"}, Jobs: jobs, Story: story}
}

func looking(w, h int) *Model {
	m := &Model{Width: w, Height: h}
	for i := range 10 {
		m.Seen(cluster(noon.Add(time.Duration(i-9)*time.Second), 200+17*i))
	}
	return m
}

func (m *Model) keys(t *testing.T, keys ...string) (asks []Ask) {
	t.Helper()
	for _, k := range keys {
		asks = m.Key(k)
	}
	return asks
}

func TestTheScreensAreAsTheyWere(t *testing.T) {
	tasks := &TasksOf{Job: "render5eqob", Tasks: []api.Task{
		{ID: "render5eqob.7.1", Slot: 7, Attempt: 1, State: "failed", PeerName: "nas", Took: 0.4, Message: "exit code 3"},
		{ID: "render5eqob.41.2", Slot: 41, Attempt: 2, State: "running", PeerName: "mini", Item: "scene-41"},
		{ID: "render5eqob.9.1", Slot: 9, Attempt: 1, State: "complete", PeerName: "nas", Took: 2.9},
	}, Slow: []string{"pi takes 5× as long as the others: 12 s instead of 2.4 s"}}
	for name, do := range map[string]func(*Model){
		"overview": func(*Model) {},
		"chosen":   func(m *Model) { m.keys(t, "down", "down", "down", "down") },
		"job":      func(m *Model) { m.keys(t, "/", "r", "e", "n", "enter", "enter"); m.Seen(Seen{Tasks: tasks}) },
		"peer":     func(m *Model) { m.keys(t, "enter") },
		"logs": func(m *Model) {
			m.keys(t, "G", "l")
			m.Seen(Seen{Logs: &LogsOf{ID: "old11", Tasks: 3, Lines: []string{"1.1  one", "7.2  two\x1b[31m\ttabs", "1.1  three"}}})
		},
		"task": func(m *Model) {
			m.keys(t, "/", "r", "e", "n", "enter", "enter")
			m.Seen(Seen{Tasks: tasks})
			m.keys(t, "down")
		},
		"tasklogs": func(m *Model) {
			m.keys(t, "/", "r", "e", "n", "enter", "enter")
			m.Seen(Seen{Tasks: tasks})
			m.keys(t, "down", "l")
			m.Seen(Seen{Of: Ask{Logs, "render5eqob.41.2"}, Logs: &LogsOf{ID: "render5eqob.41.2", Tasks: 1, Lines: []string{"frame 8 of 240"}}})
		},
		"help":   func(m *Model) { m.keys(t, "?") },
		"cancel": func(m *Model) { m.keys(t, "down", "down", "down", "down", "c") },
		"drain":  func(m *Model) { m.keys(t, "down", "d") },
		"find":   func(m *Model) { m.keys(t, "/", "w", "e") },
		"lost":   func(m *Model) { m.Seen(Seen{Err: errors.New("no peer runs here")}) },
	} {
		m := looking(80, 24)
		do(m)
		if err := golden.Check("testdata/"+name+".txt", strings.Join(m.Lines(), "\n")+"\n"); err != nil {
			t.Error(err)
		}
	}
	m := &Model{Width: 80, Height: 24}
	m.Seen(Seen{Err: errors.New("no peer runs here; start one with `peer up`")})
	if got := m.Lines()[0]; !strings.Contains(got, "peer up") {
		t.Errorf("%q", got)
	}
}

func TestAStoppedJobAndItsTasksAreCalledAsTheOtherCommandsCallThem(t *testing.T) {
	m := &Model{Width: 80, Height: 24}
	s := cluster(noon, 200)
	s.Jobs[3].State, s.Jobs[3].Tasks = "shutdown", map[string]int{"complete": 2, "shutdown": 3}
	m.Seen(s)
	m.keys(t, "G")
	if got := strings.Join(m.Lines(), "\n"); !strings.Contains(got, "cancelled") || strings.Contains(got, "shutdown") {
		t.Error(got)
	}
	m.keys(t, "enter")
	m.Seen(Seen{Tasks: &TasksOf{Job: "old11", Tasks: []api.Task{{Slot: 1, Attempt: 1, State: "shutdown", PeerName: "nas"}}}})
	if got := strings.Join(m.Lines(), "\n"); !strings.Contains(got, "old11  cancelled") || !strings.Contains(got, "2 complete · 3 stopped") || strings.Contains(got, "shutdown") {
		t.Error(got)
	}
}

func TestEveryScreenHasTheSizeOfItsTerminalWhateverIsTyped(t *testing.T) {
	keys := []string{"up", "down", "enter", "l", "c", "d", "a", "y", "n", "/", "?", "esc", "q", "G", "g", "pgdown", "space", "w", "é", "backspace", "ctrl+x"}
	rapid.Check(t, func(t *rapid.T) {
		m := &Model{Width: rapid.IntRange(1, 200).Draw(t, "w"), Height: rapid.IntRange(1, 60).Draw(t, "h"), Colour: rapid.Bool().Draw(t, "colour")}
		for i := range rapid.IntRange(0, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				s := cluster(noon.Add(time.Duration(i)*time.Second), 100+i)
				n := rapid.IntRange(0, len(s.Jobs)).Draw(t, "jobs")
				s.Jobs, s.Peers.Peers = s.Jobs[n:], s.Peers.Peers[:rapid.IntRange(0, 4).Draw(t, "peers")]
				m.Seen(s)
			case 1:
				m.Seen(Seen{Tasks: &TasksOf{Job: "render5eqob", Slow: []string{"pi is slow"}, Tasks: []api.Task{{ID: "render5eqob.1.1"}, {ID: "render5eqob.2.1"}}[:i%3]}})
				m.Seen(Seen{Logs: &LogsOf{ID: rapid.SampledFrom([]string{"render5eqob", "render5eqob.2.1"}).Draw(t, "of"), Lines: make([]string, rapid.IntRange(0, 99).Draw(t, "lines"))}})
			default:
				m.Key(rapid.SampledFrom(keys).Draw(t, "key"))
			}
			lines := m.Lines()
			if len(lines) != m.Height {
				t.Fatalf("%d lines of %d", len(lines), m.Height)
			}
			for _, l := range lines {
				if ansi.StringWidth(l) > m.Width {
					t.Fatalf("%d columns of %d: %q", ansi.StringWidth(l), m.Width, l)
				}
				if !m.Colour && strings.Contains(l, "\x1b") {
					t.Fatalf("%q", l)
				}
			}
		}
	})
}

func TestNothingIsChangedWithoutAYes(t *testing.T) {
	for keys, want := range map[string][]Ask{
		"down down down down c y": {{Cancel, "render5eqob"}, {What: Overview}},
		"down down down down c n": nil,
		"down down down down c":   nil,
		"down d y":                {{Drain, "12D3n"}, {What: Overview}},
		"down d enter":            nil,
		"down down down d y":      {{Activate, "12D3w"}, {What: Overview}}, // it is drained already
		"down c y":                nil,
		"G c y":                   nil, // it is over
		"q":                       {{What: Quit}},
		"? q q":                   {{What: Quit}},
		"enter q":                 nil,
		"/ q":                     nil,
		"ctrl+c":                  {{What: Quit}},
		"/ m i l enter G l":       {{Logs, "old11"}},
	} {
		if got := looking(80, 24).keys(t, strings.Fields(keys)...); !reflect.DeepEqual(got, want) && len(got)+len(want) > 0 {
			t.Errorf("%s: %v, want %v", keys, got, want)
		}
	}
}

func TestWhatIsLeftIsToldByThePaceOfTheLastHalfMinute(t *testing.T) {
	m := &Model{Width: 80, Height: 24}
	m.Seen(cluster(noon, 100))
	if d := m.left(&m.jobs[0]); d != 0 {
		t.Errorf("%s is said after one look", d)
	}
	for i := range 40 {
		m.Seen(cluster(noon.Add(time.Duration(i+1)*time.Second), 100+10*(i+1)))
	}
	if d := m.left(&m.jobs[0]); d != 10*time.Second { // 100 left, 10 a second
		t.Errorf("%s", d)
	}
	if n := len(m.paces["render5eqob"]); n > 32 {
		t.Errorf("%d samples are kept", n)
	}
}

// asked is a peer that notes what it is asked for.
type asked struct {
	said []string
	err  error

	tasks []api.Task
	mu    sync.Mutex // of Logs: several are read at once
}

func (p *asked) note(format string, a ...any) error {
	p.said = append(p.said, fmt.Sprintf(format, a...))
	return p.err
}

func (p *asked) Peers(context.Context) (api.Peers, error) { return api.Peers{}, p.note("peers") }
func (p *asked) SomeJobs(_ context.Context, q api.JobQuery) (api.Jobs, error) {
	return api.Jobs{Jobs: []api.Job{{ID: q.States[0]}}}, p.note("%d jobs %v", q.Limit, q.States)
}

func (p *asked) Story(_ context.Context, n int) (api.Story, error) {
	return api.Story{}, p.note("story %d", n)
}

func (p *asked) SomeTasks(_ context.Context, id string, q api.TaskQuery) (api.Tasks, error) {
	return api.Tasks{Tasks: p.tasks[:min(len(p.tasks), q.Limit)]}, p.note("tasks of %s", id)
}

func (p *asked) Job(_ context.Context, id string) (api.JobAnswer, error) {
	pace := &api.Pace{Peers: []api.PeerPace{{PeerName: "pi", Took: 12, Others: 2.4, Slower: 5}, {PeerName: "nas", Took: 2.4}}}
	return api.JobAnswer{Job: api.Job{Pace: pace}}, p.note("job %s", id)
}

func (p *asked) Logs(_ context.Context, id string, q api.LogQuery, send func(api.LogChunk) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := noon.Add(time.Duration(len(id)) * time.Second)
	_ = send(api.LogChunk{Stream: "stderr", Data: []byte("bad"), At: new(at.Add(time.Minute))})
	_ = send(api.LogChunk{Stream: "stdout", Data: []byte("one\ntw"), At: &at})
	_ = send(api.LogChunk{Stream: "stdout", Data: []byte("o\n"), At: &at})
	return p.note("logs of %s %s tail %d", id, q.Task, q.Tail)
}

func (p *asked) Cancel(_ context.Context, id string) (api.JobAnswer, error) {
	return api.JobAnswer{}, p.note("cancel %s", id)
}

func (p *asked) SetAvailability(_ context.Context, peer string, a api.Availability) (api.PeerAnswer, error) {
	return api.PeerAnswer{}, p.note("%s %s", a.Availability, peer)
}

func TestEachQuestionIsAskedOfThePeer(t *testing.T) {
	for want, ask := range map[string]Ask{
		"[peers 500 jobs [held pending running] 100 jobs [complete failed cancelled] story 4]": {What: Overview}, "[tasks of j tasks of j tasks of j job j]": {Tasks, "j"}, "[logs of j j.1.1 tail 200]": {Logs, "j.1.1"},
		"[cancel j]": {Cancel, "j"}, "[drain p]": {Drain, "p"}, "[active p]": {Activate, "p"},
	} {
		p := &asked{}
		s := Answer(t.Context(), p, ask)
		if got := fmt.Sprint(p.said); got != want || s.Err != nil || s.Of != ask {
			t.Errorf("%s, want %s: %v", got, want, s.Err)
		}
		if s.Logs != nil && fmt.Sprint(s.Logs.Lines) != "[one two bad]" {
			t.Errorf("%q", s.Logs.Lines)
		}
		if s.Tasks != nil && fmt.Sprint(s.Tasks.Slow) != "[pi takes 5× as long as the others: 12 s instead of 2.4 s]" {
			t.Errorf("%q", s.Tasks.Slow)
		}
		p = &asked{err: errors.New("gone")}
		if s := Answer(t.Context(), p, ask); s.Err == nil && s.Logs == nil { // what was read of a log is shown
			t.Errorf("%v: no error", ask)
		}
	}
}

func TestOutputOfAJobNamesTheTasksAndIsOfThoseThatFailedOrRunFirst(t *testing.T) {
	p := &asked{}
	for slot := range 20 {
		id := fmt.Sprintf("j.%d.1", slot+1)
		p.tasks = append(p.tasks, api.Task{ID: id, Slot: slot + 1, Attempt: 1})
	}
	s := Answer(t.Context(), p, Ask{Logs, "j"})
	if s.Err != nil || s.Logs.Tasks != some || len(s.Logs.Lines) != 3*some {
		t.Fatalf("%+v, %v", s.Logs, s.Err)
	}
	if l := s.Logs.Lines; l[0] != "1.1  one" || l[1] != "1.1  two" || l[3*some-1] != "8.1  bad" {
		t.Errorf("%q", l)
	}
	if p.said[0] != "tasks of j" || strings.HasPrefix(p.said[1], "tasks") || !strings.HasSuffix(p.said[1], "tail 25") {
		t.Errorf("%q", p.said) // those that failed are enough
	}
}

func TestAQuestionIsNotAskedAgainBeforeItsAnswer(t *testing.T) {
	m := looking(80, 24)
	m.keys(t, "/", "m", "i", "l", "enter", "G")
	if asks := m.keys(t, "l"); !reflect.DeepEqual(asks, []Ask{{Logs, "old11"}}) {
		t.Fatalf("%v", asks)
	}
	if asks := m.Tick(); len(asks) != 1 {
		t.Errorf("%v while the answer is waited for", asks)
	}
	m.Seen(Seen{Of: Ask{Logs, "old11"}, Logs: &LogsOf{ID: "old11"}})
	if asks := m.Tick(); len(asks) != 2 || asks[1] != (Ask{Logs, "old11"}) {
		t.Errorf("%v after the answer", asks)
	}
	m.keys(t, "q", "enter")
	m.Seen(Seen{Of: Ask{Tasks, "old11"}, Tasks: &TasksOf{Job: "old11", Tasks: []api.Task{{ID: "old11.1.1"}, {ID: "old11.2.1"}}}})
	if asks := m.keys(t, "down", "down", "enter"); !reflect.DeepEqual(asks, []Ask{{Logs, "old11.2.1"}}) {
		t.Fatalf("%v", asks)
	}
	m.Seen(Seen{Of: Ask{Logs, "old11"}, Err: context.Canceled}) // the question before, which gave way
	m.Seen(Seen{Of: Ask{Logs, "old11.2.1"}, Logs: &LogsOf{ID: "old11.2.1", Lines: []string{"fine"}}})
	if got := strings.Join(m.Lines(), "\n"); !strings.Contains(got, "fine") || !strings.Contains(got, "million.2.1") || strings.Contains(got, "canceled") {
		t.Error(got)
	}
	if m.keys(t, "q"); m.page != jobPage || m.chosenTask() != 1 {
		t.Errorf("back on page %d, task %d", m.page, m.chosenTask())
	}
}

func TestOneLookFollowsAnotherHoweverOftenSomethingIsChanged(t *testing.T) {
	v := &terminal{ctx: t.Context(), m: &Model{Width: 80, Height: 24}, peer: &asked{}, ends: map[Want]context.CancelFunc{}}
	look := cluster(noon, 200)
	for range 3 { // a change asks for the overview besides
		v.Update(look)
	}
	if _, ask := v.Update(tick(1)); ask != nil {
		t.Error("a tick that was overtaken asks")
	}
	if _, ask := v.Update(tick(3)); ask == nil {
		t.Error("the newest tick asks for nothing")
	}
}
