package testnet

import (
	"context"
	"sync"
	"time"

	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/node/api"
)

const (
	bossEvery = 50 * time.Millisecond
	endsEvery = time.Second
)

// watchCoordinator measures the longest time during which a majority was up and connected and did
// not agree on a coordinator.
func (s *soak) watchCoordinator(ctx context.Context) {
	since := time.Now() // of the present time without one
	for pause.For(ctx, bossEvery) == nil {
		boss := s.namedBoss(ctx)
		s.mu.Lock()
		s.boss = boss
		able := s.majorityAble()
		s.mu.Unlock()
		now := time.Now()
		if boss > 0 || !able {
			since = now
			continue
		}
		s.mu.Lock()
		if gap := now.Sub(since).Seconds(); gap > s.report.NoBoss {
			s.report.NoBoss, s.report.NoBossAt = gap, since.Sub(s.began).Seconds()
		}
		s.mu.Unlock()
	}
}

// namedBoss is whom a majority of all peers names as coordinator, if that peer runs.
func (s *soak) namedBoss(ctx context.Context) int {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	votes := make([]int, s.net.N()+1)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for k := 1; k <= s.net.N(); k++ {
		if !s.net.Running(k) || s.net.Paused(k) {
			continue
		}
		wg.Go(func() {
			if b, err := s.net.Coordinator(ctx, k); err == nil {
				mu.Lock()
				votes[b]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for b := 1; b < len(votes); b++ {
		if 2*votes[b] > s.net.N() && s.net.Running(b) && !s.net.Paused(b) {
			return b
		}
	}
	return 0
}

// majorityAble tells whether more than half of the peers have nothing done to them and are on one
// side. The caller holds the lock.
func (s *soak) majorityAble() bool {
	whole := 0
	for _, n := range s.hurting {
		if n == 0 {
			whole++
		}
	}
	if s.split && 2*len(s.minor) > len(s.hurting) {
		return false // the victims are the larger side: counted as if they could do nothing
	}
	return 2*whole > len(s.hurting)
}

// watchEnds notes jobs as they end, before the cluster forgets them.
func (s *soak) watchEnds(ctx context.Context) {
	for pause.For(ctx, endsEvery) == nil {
		for k := 1; k <= s.net.N(); k++ {
			if s.net.Running(k) && !s.net.Paused(k) {
				s.noteEnds(ctx, k)
			}
		}
	}
}

// noteEnds reads peer k's list. An end that one peer shows and another shows differently is
// trouble.
func (s *soak) noteEnds(ctx context.Context, k int) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	list, err := s.net.Client(k).Jobs(ctx)
	if err != nil {
		return // it ended, or was paused
	}
	differ := []api.Job{}
	s.mu.Lock()
	for _, row := range list.Jobs {
		x := s.jobs[row.ID]
		switch {
		case x == nil || !row.Over():
		case x.ended == nil:
			x.ended = &row
		case !sameEnd(x.ended, &row):
			differ = append(differ, row)
		}
	}
	s.mu.Unlock()
	for _, row := range differ {
		s.count(&s.report.Wrong)
		s.trouble("job %s ended twice: peer %d shows %s", row.ID, k, row.State)
	}
}

func sameEnd(a, b *api.Job) bool {
	if a.State != b.State || a.Cancelled != b.Cancelled || *a.ExitCode != *b.ExitCode || !a.Ended.Equal(*b.Ended) {
		return false
	}
	return countsOf(a.Tasks, b.Tasks) && countsOf(b.Tasks, a.Tasks)
}

// countsOf tells whether b counts as many of each state as a does.
func countsOf(a, b map[string]int) bool {
	for state, n := range a {
		if b[state] != n {
			return false
		}
	}
	return true
}
