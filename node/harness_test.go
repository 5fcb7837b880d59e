package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/orders"
	"github.com/coveyproject/covey/node/view"
	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/jobfile"
)

// patience bounds every wait of these tests: against hanging, not as a measure.
const patience = 60 * time.Second

// atOnce is how many tests run at once: they wait for peers most of their time.
const atOnce = 4

func TestMain(m *testing.M) {
	long.AtOnce(atOnce)
	os.Exit(long.InMemory(m))
}

// taskFolder is a folder that tasks may write to: they are other users' where root runs the
// tests.
func taskFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	err := os.Chmod(dir, 0o777)
	for up := filepath.Dir(dir); err == nil && up != "/dev/shm" && up != "/tmp" && up != "/"; up = filepath.Dir(up) {
		if st, serr := os.Stat(up); serr == nil && st.Mode().Perm()&1 == 0 {
			err = os.Chmod(up, 0o755)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func timed(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func now() int64 { return time.Now().UnixMilli() }

// living is a peer that runs in this process.
type living struct {
	*Node
	*view.View
	*orders.Orders
	t     *testing.T
	all   []*living // of clusterOf
	cfg   Config
	ready api.Status
	end   context.CancelFunc
	ended chan error
}

// alive runs a peer until the test ends, on a loopback port of its own, and returns when it is
// ready.
func alive(t *testing.T, cfg Config) *living {
	t.Helper()
	l, err := tryAlive(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func tryAlive(t *testing.T, cfg Config) (*living, error) {
	t.Helper()
	l, ready, err := begun(t, cfg)
	if err != nil {
		return nil, err
	}
	select {
	case l.ready = <-ready:
		return l, nil
	case err := <-l.ended:
		l.ended <- err
		if err == nil {
			err = errors.New("ended before it was ready")
		}
		return nil, err
	case <-time.After(patience):
		return nil, errors.New("not ready in time")
	}
}

// begun starts a peer that runs until the test ends.
func begun(t *testing.T, cfg Config) (*living, <-chan api.Status, error) {
	t.Helper()
	cfg = small(t, cfg)
	n, err := New(cfg)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &living{Node: n, View: n.view, Orders: n.orders, t: t, cfg: cfg, end: cancel, ended: make(chan error, 1)}
	ready := make(chan api.Status, 1)
	go func() { l.ended <- n.Run(ctx, func(s api.Status) { ready <- s }) }() // ends with the test's cleanup
	t.Cleanup(func() { l.stop() })
	return l, ready, nil
}

// small fills a Config for tests: loopback, a free port, no multicast, one folder that a restart
// can use again.
func small(t *testing.T, cfg Config) Config {
	if cfg.Data == "" {
		cfg.Data = t.TempDir()
	}
	if cfg.Listen == nil {
		cfg.Listen = []string{"127.0.0.1:0"}
	}
	if cfg.Name == "" {
		cfg.Name = "peer"
	}
	if os.Getenv("COVEY_TEST_LOG") != "" {
		cfg.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("on", cfg.Name)
	}
	if cfg.Store == 0 { // of a disk that is nearly full the fair share is nothing
		cfg.Store = 4 << 30
	}
	cfg.NoMDNS, cfg.Testnet, cfg.MilliCPU = true, true, 2000
	return cfg
}

// stop ends the peer in order and returns what Run returned.
func (l *living) stop() error {
	l.end()
	select {
	case err := <-l.ended:
		l.ended <- err
		return err
	case <-time.After(patience):
		l.t.Error("the peer does not end")
		return nil
	}
}

// crash ends the peer as a power cut looks to the others: no goodbye, every connection gone at
// once.
func (l *living) crash() {
	_ = l.host.Close()
	_ = l.stop()
}

// again starts the peer with the same data folder, on another port.
func (l *living) again() *living {
	l.t.Helper()
	if err := os.Remove(l.folder.path("port")); err != nil {
		l.t.Fatal(err)
	}
	return l.start(nil)
}

// back starts the peer with the same data folder, on the port it had.
func (l *living) back() *living {
	l.t.Helper()
	return l.start(l.host.Addrs())
}

func (l *living) start(listen []string) *living {
	cfg := l.cfg
	cfg.Join, cfg.Listen = "", listen
	return alive(l.t, cfg)
}

// clusterOf founds a cluster and has others join it with one ticket. The first coordinates, unless
// a busy machine makes others elect another, and everybody hears everybody.
func clusterOf(t *testing.T, names ...string) []*living {
	t.Helper()
	all := []*living{alive(t, Config{Name: names[0]})}
	ticket := all[0].ticket(api.TicketRequest{Expires: 600})
	for _, name := range names[1:] {
		all = append(all, alive(t, Config{Name: name, Join: ticket.Ticket}))
	}
	for _, l := range all {
		l.all = all
		l.sees(names...)
		eventually(t, l.name+" hears all others", func() (bool, string) {
			v := l.members.View()
			return len(v.Others()) == len(all)-1, v.String()
		})
	}
	return all
}

func (l *living) ticket(r api.TicketRequest) api.Ticket {
	l.t.Helper()
	k, err := l.Invite(timed(l.t), r)
	if err != nil {
		l.t.Fatal(err)
	}
	return k
}

// sees waits until this peer shows all of these as ready, and the coordinator.
func (l *living) sees(names ...string) {
	l.t.Helper()
	eventually(l.t, fmt.Sprintf("%s sees %v", l.name, names), func() (bool, string) {
		ps, err := l.Peers(timed(l.t))
		if err != nil {
			return false, err.Error()
		}
		standing := map[string]string{}
		for _, p := range ps.Peers {
			standing[p.Name] = p.Standing
		}
		for _, name := range names {
			if standing[name] != "ready" {
				return false, fmt.Sprint(standing)
			}
		}
		return ps.Coordinator != "", "no coordinator"
	})
}

// eventually polls: for what no event tells.
func eventually(t *testing.T, what string, cond func() (bool, string)) {
	t.Helper()
	limit := time.After(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, why := cond()
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("%s: not so after %s: %s", what, patience, why)
		}
	}
}

func noopJob(name string, count int, each time.Duration) taskstate.Job {
	j := taskstate.Job{Name: name, Count: count}
	j.Run.Noop = &taskstate.Noop{Duration: each.Milliseconds()}
	jobfile.Defaults(&j)
	return j
}

func shellJob(name string, count int, line string) taskstate.Job {
	j := taskstate.Job{Name: name, Count: count}
	j.Run.Process = &taskstate.Process{Command: []string{line}, Shell: true}
	jobfile.Defaults(&j)
	return j
}

// submit hands in a job that must be taken at once.
func (l *living) submit(j taskstate.Job) string {
	l.t.Helper()
	s, err := l.Submit(timed(l.t), api.Submit{Job: j})
	if err != nil || s.Held {
		l.t.Fatalf("submit %s at %s: %+v, %v", j.Name, l.name, s, err)
	}
	return s.ID
}

// outcome follows a job to its end.
func (l *living) outcome(id string) (last api.Job, tasks map[int]api.Task) {
	l.t.Helper()
	tasks = map[int]api.Task{}
	err := l.Follow(timed(l.t), id, true, func(p api.Progress) error {
		last = p.Job
		for _, k := range p.Tasks {
			tasks[k.Slot] = k
		}
		return nil
	})
	if err != nil {
		l.t.Fatalf("follow %s at %s: %v", id, l.name, err)
	}
	return last, tasks
}

// output reads a job's stdout and stderr.
func (l *living) output(id string, q api.LogQuery) string {
	l.t.Helper()
	var b strings.Builder
	err := l.Logs(timed(l.t), id, q, func(c api.LogChunk) error {
		b.Write(c.Data)
		if c.Error != nil {
			fmt.Fprintf(&b, "[%s]", c.Error.Message)
		}
		return nil
	})
	if err != nil {
		l.t.Fatalf("logs of %s at %s: %v", id, l.name, err)
	}
	return b.String()
}

// wants fails unless err is an api.Error of this code whose text holds all parts.
func wants(t *testing.T, err error, code api.Code, parts ...string) {
	t.Helper()
	var e *api.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("want an error of code %s, not %v", code, err)
	}
	for _, p := range parts {
		if !strings.Contains(e.Message, p) {
			t.Errorf("the error should say %q: %s", p, e.Message)
		}
	}
}

// puppet is a host that speaks what a test has it say: the other end of protocols that a whole peer
// would get right.
type puppet struct {
	*p2p.Host
	t       *testing.T
	cluster *string // set when it is admitted
}

func newPuppet(t *testing.T) puppet {
	t.Helper()
	key, err := p2p.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	h, err := p2p.New(p2p.Config{Key: key, Listen: []string{"127.0.0.1:0"}, Admitted: func(string) bool { return true }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return puppet{h, t, new(string)}
}

// decides has whoever coordinates decide this: mostly this peer, another one after an election.
func (l *living) decides(cs ...ledger.Command) (index uint64, results []ledger.Result, err error) {
	l.t.Helper()
	eventually(l.t, "somebody coordinates", func() (bool, string) {
		for _, who := range append([]*living{l}, l.all...) {
			index, results, err = who.ledger.Propose(timed(l.t), cs)
			if !errors.As(err, new(ledger.ErrNotCoordinator)) {
				return true, ""
			}
		}
		return false, err.Error()
	})
	return index, results, err
}

// admit has the cluster's coordinator admit a puppet with these roles.
func (l *living) admit(p puppet, roles ...admission.Role) {
	l.t.Helper()
	e, err := admission.Entry{Cluster: l.roster.Cluster(), Peer: p.Self(), Name: "puppet", Roles: roles, At: now()}.Signed(l.host)
	if err != nil {
		l.t.Fatal(err)
	}
	_, results, err := l.decides(l.says(l.self, ledger.Command{Admit: &ledger.Admit{Entry: e, Dialect: wire.Dialect}}))
	if err != nil || results[0].Refused != ledger.CodeNone {
		l.t.Fatalf("admit a puppet: %v, %v", results, err)
	}
	eventually(l.t, "the roster has the puppet", func() (bool, string) { return l.roster.Admitted(p.Self()), "" })
	*p.cluster = l.roster.Cluster()
	p.SetAddrs(l.self, l.host.Addrs())
	l.host.SetAddrs(p.Self(), p.Addrs())
}
