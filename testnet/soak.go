package testnet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/node/api"
)

// SoakConfig says how long to hurt a cluster and how.
type SoakConfig struct {
	Exe   string
	Dir   string // of the testnet, new; kept if something is wrong
	For   time.Duration
	Seed  uint64
	Talk  io.Writer // what is being done, for people; nil: nothing
	Peers int       // 0: 5
	Debug bool      // peers log everything
	Keep  bool      // keep Dir also if all is well
}

// SoakReport is what became of what was asked of the cluster.
type SoakReport struct {
	Seed     uint64         `json:"seed"`
	Peers    int            `json:"peers"`
	Seconds  float64        `json:"seconds"`                        // of hurting
	Hurts    map[string]int `json:"hurts"`                          // by kind
	Accepted int            `json:"accepted"`                       // jobs, and of them
	Held     int            `json:"held"`                           //   first only held by the peer that was asked
	Cancels  int            `json:"cancels"`                        //   cancelled, and told so
	Lost     int            `json:"lost"`                           //   gone, or without an end after all peers were back
	Wrong    int            `json:"wrong"`                          //   ended as they should not, or not all peers agree on them
	Runs     int            `json:"runs"`                           // processes begun
	Again    int            `json:"double_runs"`                    // slots begun more than once although a second run may happen
	Twice    int            `json:"forbidden_double_runs"`          // with unreachable: wait
	Files    int            `json:"files"`                          // that complete tasks left, fetched and found right
	Owed     int            `json:"copies_owed"`                    // tasks of which fewer copies are kept than were wanted
	Strays   int            `json:"strays"`                         // processes of cancelled jobs left at the end
	Hung     int            `json:"hung"`                           // commands that were not answered within the bound
	NoBoss   float64        `json:"longest_without_coordinator"`    // seconds, while a majority was up and connected
	NoBossAt float64        `json:"longest_without_coordinator_at"` // seconds after the start
	Slowest  float64        `json:"slowest_command"`                // seconds, of those asked of a peer that nothing was done to
	SlowWhat string         `json:"slowest_command_was"`
	Settled  float64        `json:"settled"`        // seconds from the last fault undone to all jobs ended and all peers agreeing
	Trouble  []string       `json:"trouble"`        // each thing that is not as it must be, in words; bounded
	Kept     string         `json:"kept,omitempty"` // the folder, if there was trouble
}

// maxTrouble bounds the words about trouble; the counts go on.
const maxTrouble = 30

// OK tells whether nothing was lost, wrong or hung.
func (r *SoakReport) OK() bool {
	return r.Lost+r.Wrong+r.Twice+r.Strays+r.Hung == 0 && len(r.Trouble) == 0
}

const (
	settleLimit = 90 * time.Second // after everybody is back: all jobs ended, all tables equal
	reviveLimit = 60 * time.Second // one peer's restart, or order
)

type soak struct {
	cfg   SoakConfig
	net   *Net
	began time.Time

	mu      sync.Mutex
	report  SoakReport
	jobs    map[string]*soakJob
	order   []string // ids as they were made
	hurting []int    // by peer number - 1: how many hurts are on it
	touched []int    // by peer number - 1: how many hurts ever
	stays   stays    // whom the others can find where they left it
	split   bool     // a partition is in force
	minor   []int    // the peers on the victims' side of it
	boss    int      // coordinator as a majority names it, 0: none
}

// Soak keeps a cluster of real processes under load while hurting it, and then tells what became of
// everything that was asked of it. The seed replays the hurts and the jobs, not how they
// interleave.
func Soak(ctx context.Context, cfg SoakConfig) (SoakReport, error) {
	if cfg.Talk == nil {
		cfg.Talk = io.Discard
	}
	cfg.Peers = cmp.Or(cfg.Peers, 5)
	s := &soak{cfg: cfg, jobs: map[string]*soakJob{}, hurting: make([]int, cfg.Peers), touched: make([]int, cfg.Peers)}
	s.report = SoakReport{Seed: cfg.Seed, Peers: cfg.Peers, Hurts: map[string]int{}, Trouble: []string{}}
	if err := os.MkdirAll(s.marks(), 0o700); err != nil {
		return s.report, api.Errorf(api.Failed, "cannot make %s: %v", s.marks(), err)
	}
	up := []string{}
	if cfg.Debug {
		up = append(up, "--verbose")
	}
	var err error
	s.net, err = Start(ctx, Config{Dir: cfg.Dir, N: cfg.Peers, Exe: cfg.Exe, Keep: true, UpArgs: up})
	if err != nil {
		return s.report, err
	}
	defer s.net.Quit()
	if err := s.within(ctx, reviveLimit, s.awaitWhole); err != nil {
		return s.report, err
	}
	s.run(ctx)
	if err := ctx.Err(); err != nil {
		return s.report, err
	}
	s.judgeAll(ctx)
	s.net.Quit()
	if s.report.OK() && !cfg.Keep {
		return s.report, os.RemoveAll(cfg.Dir)
	}
	s.report.Kept = cfg.Dir
	return s.report, nil
}

// awaitWhole waits until everybody is ready and as many vote as will: before that, one peer's loss
// can be a majority's.
func (s *soak) awaitWhole(ctx context.Context) error {
	if err := s.net.AwaitReady(ctx); err != nil {
		return err
	}
	return s.net.await(ctx, func() bool { return s.net.seated(ctx, 1) })
}

// seated tells whether as many vote as will, as peer k says.
func (n *Net) seated(ctx context.Context, k int) bool {
	st, err := n.Client(k).Status(ctx)
	return err == nil && len(st.Voters) >= min(n.N(), 5)-(1-n.N()%2)
}

func (s *soak) marks() string { return filepath.Join(s.cfg.Dir, "marks") }

// run hurts and loads until the plan is done, then brings everybody back and lets the load end.
func (s *soak) run(ctx context.Context) {
	s.began = time.Now()
	var load, watch sync.WaitGroup
	loading, stopLoad := context.WithCancel(ctx)
	watching, stopWatch := context.WithCancel(ctx)
	for w := range soakClients {
		load.Go(func() { s.client(loading, ctx, w) })
	}
	watch.Go(func() { s.watchCoordinator(watching) })
	watch.Go(func() { s.watchEnds(watching) })
	for _, a := range soakPlan(s.cfg.Seed, s.cfg.Peers, s.cfg.For) {
		s.act(ctx, a)
	}
	s.say("no more faults, bringing all peers back")
	s.reviveAll(ctx)
	s.mu.Lock()
	s.report.Seconds = time.Since(s.began).Seconds()
	s.mu.Unlock()
	stopLoad()
	load.Wait() // what was being asked is answered
	s.settle(ctx)
	stopWatch()
	watch.Wait()
}

func (s *soak) say(format string, args ...any) {
	fmt.Fprintf(s.cfg.Talk, "%6.1f s  %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

func (s *soak) trouble(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.say("TROUBLE: %s", text)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.report.Trouble) < maxTrouble {
		s.report.Trouble = append(s.report.Trouble, text)
	}
}

func (s *soak) count(n *int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*n++
}

func (s *soak) within(ctx context.Context, d time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return f(ctx)
}

// act does the hurts of one act, undoes each after its time, and rests.
func (s *soak) act(ctx context.Context, a act) {
	var wg sync.WaitGroup
	for i, h := range a.Hurts {
		if i > 0 && pause.For(ctx, a.Gap) != nil {
			break
		}
		wg.Go(func() { s.hurt(ctx, h) })
	}
	wg.Wait()
	_ = pause.For(ctx, a.Rest)
}

// hurt does one thing and undoes it after its time.
func (s *soak) hurt(ctx context.Context, h hurt) {
	victims := s.take(h)
	if len(victims) == 0 {
		return // they are hurt already
	}
	defer s.release(h, victims)
	s.say("%s: %v for %s", h, victims, h.Hold)
	if h.What == "cut" {
		if err := s.within(ctx, reviveLimit, func(ctx context.Context) error { return s.net.Partition(ctx, [][]int{victims}) }); err != nil && !gone(err) {
			s.trouble("partition: %v", err)
		}
		_ = pause.For(ctx, h.Hold)
		if err := s.within(ctx, reviveLimit, s.net.Heal); err != nil && !gone(err) {
			s.trouble("heal: %v", err)
		}
		return
	}
	since := time.Now()
	s.each(victims, func(k int) { s.begin(ctx, h, k) })
	_ = pause.For(ctx, h.Hold)
	bring := s.net.Restart
	if !s.stays.anyBut(victims, since, s.net.N(), s.net.Running) {
		bring = s.net.Revive // nobody stayed who could tell them where the others are now: they come back where they were
	}
	s.each(victims, func(k int) { s.undo(ctx, k, bring) })
}

// gone recognises the answer of a peer that ended while it was told something: another hurt's
// victim.
func gone(err error) bool {
	return api.AsError(err).Code == api.NoCoordinator || errors.Is(err, context.DeadlineExceeded)
}

func (s *soak) each(victims []int, f func(k int)) {
	var wg sync.WaitGroup
	for _, k := range victims {
		wg.Go(func() { f(k) })
	}
	wg.Wait()
}

func (s *soak) begin(ctx context.Context, h hurt, k int) {
	var err error
	switch h.What {
	case "kill":
		err = s.net.Kill(k)
	case "pause":
		err = s.net.Pause(k)
	case "halt":
		err = s.net.Halt(ctx, k)
	case "slow":
		err = s.within(ctx, reviveLimit, func(ctx context.Context) error { return s.net.Slow(ctx, k, h.Rate) })
		if err != nil && gone(err) {
			err = nil
		}
	}
	if err != nil {
		s.trouble("%s peer %d: %v", h.What, k, err)
	}
}

func (s *soak) undo(ctx context.Context, k int, bring func(context.Context, int) error) {
	err := s.within(ctx, reviveLimit, func(ctx context.Context) error {
		if s.net.Slowed(k) {
			return s.net.Slow(ctx, k, 0)
		}
		if s.net.Running(k) {
			if s.net.Paused(k) {
				return s.net.Unpause(ctx, k)
			}
			return nil
		}
		s.stays.back(k, time.Now())
		return bring(ctx, k)
	})
	if err != nil && !gone(err) {
		s.trouble("bring back peer %d: %v", k, err)
	}
}

// take chooses the victims that are not hurt yet and marks them.
func (s *soak) take(h hurt) []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.What == "cut" && s.split {
		return nil
	}
	var out []int
	for _, k := range h.victims(s.boss) {
		if h.What == "cut" || s.hurting[k-1] == 0 {
			out = append(out, k)
			s.hurting[k-1]++
			s.touched[k-1]++
		}
	}
	if len(out) > 0 {
		s.report.Hurts[h.What]++
		if h.What == "cut" {
			s.split, s.minor = true, out
			for i := range s.touched {
				s.touched[i]++ // a cut has two sides
			}
		}
	}
	return out
}

func (s *soak) release(h hurt, victims []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range victims {
		s.hurting[k-1]--
	}
	if h.What == "cut" {
		s.split, s.minor = false, nil
	}
}

func (s *soak) reviveAll(ctx context.Context) {
	_ = s.within(ctx, reviveLimit, s.net.Heal)
	for k := 1; k <= s.net.N(); k++ {
		s.undo(ctx, k, s.net.Restart)
	}
	if err := s.within(ctx, settleLimit, s.net.AwaitReady); err != nil {
		s.trouble("after all peers were back: %v", err)
	}
}
