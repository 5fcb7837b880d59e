package saver

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/coveyproject/covey/node/keep"
	"github.com/coveyproject/covey/taskstate"
)

// safe goes on with a task whose files were collected.
func (s *Saver) safe(t *task, c collected) {
	if why := s.stopping(t); why != "" {
		s.over(t, stopped(*t.ended, why, c.partial(s.cfg.Self)))
		return
	}
	end, copies := settle(t.launch.Job, s.cfg.Self, *t.ended, c)
	if copies == 0 {
		s.over(t, end)
		return
	}
	s.all.Go(func() { s.copied(t, c, end, copies) })
}

// copied has other peers keep what a task left, and reports its end.
func (s *Saver) copied(t *task, c collected, end taskstate.RunReport, copies int) {
	select {
	case s.copy <- struct{}{}:
		end.Saved = s.copies(t, *end.Saved, copies)
		<-s.copy
	case <-t.ctx.Done():
	}
	if why := s.stopping(t); why != "" {
		end = stopped(*t.ended, why, c.partial(s.cfg.Self))
	}
	s.over(t, end)
}

// copies asks others, and says who keeps what was saved.
func (s *Saver) copies(t *task, saved taskstate.Saved, need int) *taskstate.Saved {
	others := s.cfg.Others(t.launch.Job.Submitter)
	willing, no := s.shy.sort(keep.Order(t.launch.Task, t.launch.Job.Submitter, others), time.Now())
	kept, refused := keep.Finder{Net: s.cfg.Net}.Copies(t.ctx, keep.Request{
		Task: t.launch.Task, Saved: saved, Holders: []taskstate.PeerID{s.cfg.Self},
	}, need, willing)
	s.shy.note(refused, time.Now())
	saved.Keepers = slices.Concat(saved.Keepers, kept)
	if len(kept) < need {
		saved.Why = owed(append(no, refused...), len(others), s.cfg.Name)
	}
	return &saved
}

// declined remembers who kept nothing, so that not every task asks again.
type declined struct {
	mu sync.Mutex
	of map[taskstate.PeerID]declinedUntil
}

type declinedUntil struct {
	until time.Time
	why   error
}

// How long a peer is not asked.
const (
	shyNone   = 10 * time.Minute // it stores nothing for others: its owner may change that
	shyFull   = time.Minute
	shySilent = 30 * time.Second // it could not be reached, or nothing came to it
)

// sort takes those away who are not asked now.
func (s *declined) sort(peers []taskstate.PeerID, now time.Time) (willing []taskstate.PeerID, no []keep.Decline) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range peers {
		if is, ok := s.of[p]; ok && now.Before(is.until) {
			no = append(no, keep.Decline{Peer: p, Why: is.why})
			continue
		}
		delete(s.of, p)
		willing = append(willing, p)
	}
	return willing, no
}

// note remembers who refused.
func (s *declined) note(no []keep.Decline, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range no {
		is := declinedUntil{now.Add(shySilent), n.Why}
		var told *keep.Refused
		if errors.As(n.Why, &told) {
			switch told.Code {
			case keep.CodeNone:
				is.until = now.Add(shyNone)
			case keep.CodeFull:
				is.until = now.Add(shyFull)
			default:
				continue // it is about this task, or about this moment
			}
		}
		if s.of == nil {
			s.of = map[taskstate.PeerID]declinedUntil{}
		}
		s.of[n.Peer] = is
	}
}
