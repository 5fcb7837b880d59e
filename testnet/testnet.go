package testnet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
)

// Config says what to start.
type Config struct {
	Dir    string    // data folders, logs and the control socket
	N      int       // peers
	Exe    string    // the program that is a peer; its `up` command is run
	Keep   bool      // keep Dir at the end
	Talk   io.Writer // what is going on, for people; nil: nothing
	UpArgs []string  // further arguments of `up`
}

// MaxPeers bounds N: one machine's file descriptors carry a full mesh of so many.
const MaxPeers = 50

// Net is a running testnet. Its methods may be called concurrently.
type Net struct {
	cfg   Config
	mu    sync.Mutex
	peers []*proc
	cut   [][]int // the groups of the partition that is in force
}

// proc is one peer's process. The Net's lock guards it.
type proc struct {
	k      int // from 1
	data   string
	client *client.Client
	cmd    *exec.Cmd
	gone   chan struct{} // closed when the process has ended
	id     string
	paused bool
	rate   int64 // bytes per second that its connections carry; 0: no limit
}

// startLimit bounds how long one peer may take to be ready.
const startLimit = 40 * time.Second

// Start starts the peers: the first founds, the others join it with one ticket, side by side.
func Start(ctx context.Context, cfg Config) (*Net, error) {
	if cfg.N < 1 || cfg.N > MaxPeers {
		return nil, api.Errorf(api.Usage, "a testnet has 1 to %d peers, not %d", MaxPeers, cfg.N)
	}
	if cfg.Talk == nil {
		cfg.Talk = io.Discard
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, api.Errorf(api.Failed, "cannot make %s: %v", cfg.Dir, err)
	}
	n := &Net{cfg: cfg}
	for k := 1; k <= cfg.N; k++ {
		data := filepath.Join(cfg.Dir, "p"+strconv.Itoa(k))
		n.peers = append(n.peers, &proc{k: k, data: data, client: client.Of(data)})
	}
	if err := n.startAll(ctx); err != nil {
		n.Stop()
		return nil, err
	}
	return n, nil
}

func (n *Net) startAll(ctx context.Context) error {
	if err := n.launch(ctx, n.peers[0], ""); err != nil {
		return err
	}
	if n.cfg.N == 1 {
		return nil
	}
	t, err := n.peers[0].client.Invite(ctx, api.TicketRequest{Expires: 3600, Uses: 0})
	if err != nil {
		return fmt.Errorf("make a ticket for the testnet: %w", err)
	}
	errs := make([]error, n.cfg.N)
	var wg sync.WaitGroup
	for i, p := range n.peers[1:] {
		wg.Go(func() { errs[i] = n.launch(ctx, p, t.Ticket) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Install has peers run another program from their next start on.
func (n *Net) Install(exe string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cfg.Exe = exe
}

func (n *Net) program() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cfg.Exe
}

// storeOfEach is how much each peer may keep for others: a share of the disk, which all of them
// have together, says nothing.
const storeOfEach = "10GiB"

// launch starts one peer and waits until it answers.
func (n *Net) launch(ctx context.Context, p *proc, ticket string) error {
	if err := os.MkdirAll(p.data, 0o700); err != nil {
		return api.Errorf(api.Failed, "cannot make %s: %v", p.data, err)
	}
	logPath := filepath.Join(p.data, "peer.log")
	out, err := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return api.Errorf(api.Failed, "cannot write %s: %v", logPath, err)
	}
	defer out.Close()
	args := []string{"--data", p.data, "up", "--testnet", "--no-mdns", "--name", "p" + strconv.Itoa(p.k), "--listen", "127.0.0.1:0", "--store", storeOfEach}
	if ticket != "" {
		args = append(args, "--join", ticket)
	}
	cmd := exec.Command(n.program(), append(args, n.cfg.UpArgs...)...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = childAttr()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start peer %d: %w", p.k, err)
	}
	gone := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended is in its log; ends with the process
		close(gone)
	}()
	n.mu.Lock()
	p.cmd, p.gone, p.paused = cmd, gone, false
	n.mu.Unlock()
	return n.awaitAnswer(ctx, p, gone, logPath)
}

func (n *Net) awaitAnswer(ctx context.Context, p *proc, gone <-chan struct{}, logPath string) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond) // many may be starting at once
	defer tick.Stop()
	for {
		if st, err := p.client.Status(ctx); err == nil {
			n.mu.Lock()
			p.id = st.ID
			n.mu.Unlock()
			return nil
		}
		select {
		case <-gone:
			text, _ := os.ReadFile(logPath)
			return fmt.Errorf("peer %d ended at once: %s", p.k, lastLines(text, 500))
		case <-ctx.Done():
			return fmt.Errorf("peer %d is not ready after %s; see %s", p.k, startLimit, logPath)
		case <-tick.C:
		}
	}
}

func lastLines(text []byte, limit int) string {
	if len(text) > limit {
		text = text[len(text)-limit:]
	}
	return string(text)
}

func (n *Net) peer(k int) (*proc, error) {
	if k < 1 || k > len(n.peers) {
		return nil, api.Errorf(api.NotFound, "this testnet has peers 1 to %d, there is no peer %d", len(n.peers), k)
	}
	return n.peers[k-1], nil
}

// N is the number of peers, running or not.
func (n *Net) N() int { return len(n.peers) }

// Client asks peer k. Like every method that takes k it panics on none: k is from 1 to N.
func (n *Net) Client(k int) *client.Client { return n.peers[k-1].client }

// Data is peer k's data folder.
func (n *Net) Data(k int) string { return n.peers[k-1].data }

// ID is peer k's id.
func (n *Net) ID(k int) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.peers[k-1].id
}

// Number finds a peer's number by its id, 0 if it is not of this testnet.
func (n *Net) Number(id string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.peers {
		if p.id == id && id != "" {
			return p.k
		}
	}
	return 0
}

// Running tells whether peer k's process lives.
func (n *Net) Running(k int) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.peers[k-1]
	if p.gone == nil {
		return false
	}
	select {
	case <-p.gone:
		return false
	default:
		return true
	}
}

// Coordinator finds the number of the peer that coordinates, as peer k says.
func (n *Net) Coordinator(ctx context.Context, k int) (int, error) {
	st, err := n.Client(k).Status(ctx)
	if err != nil {
		return 0, err
	}
	if c := n.Number(st.Coordinator); c > 0 {
		return c, nil
	}
	return 0, api.Errorf(api.NoCoordinator, "peer %d knows no coordinator", k)
}

// AwaitReady waits until every running peer sees every running peer as ready and knows the
// coordinator.
func (n *Net) AwaitReady(ctx context.Context) error {
	for k := 1; k <= n.N(); k++ {
		if !n.Running(k) {
			continue
		}
		if err := n.awaitEvery(ctx, lookEvery, func() bool { return n.seesAll(ctx, k) }); err != nil {
			return fmt.Errorf("peer %d does not see all others ready: %w", k, err)
		}
	}
	return nil
}

func (n *Net) seesAll(ctx context.Context, k int) bool {
	ps, err := n.Client(k).Peers(ctx)
	if err != nil || ps.Coordinator == "" {
		return false
	}
	ready := map[string]bool{}
	for _, p := range ps.Peers {
		ready[p.ID] = p.Standing == "ready"
	}
	for j := 1; j <= n.N(); j++ {
		if n.Running(j) && !ready[n.ID(j)] {
			return false
		}
	}
	return true
}

// pollEvery is how often await looks: finer than anything it measures matters to.
const pollEvery = 5 * time.Millisecond

// lookEvery is how often a peer is asked for all it sees, which costs it and its coordinator more.
const lookEvery = 50 * time.Millisecond

func (n *Net) await(ctx context.Context, cond func() bool) error {
	return n.awaitEvery(ctx, pollEvery, cond)
}

func (n *Net) awaitEvery(ctx context.Context, every time.Duration, cond func() bool) error {
	t := time.NewTicker(every)
	defer t.Stop()
	for !cond() {
		select {
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
