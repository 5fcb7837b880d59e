package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/internal/golden"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// machine has processors of which a share is busy.
type machine struct {
	began       time.Time
	share       atomic.Int64 // in percent
	busy, total uint64
	at          time.Duration
}

func (m *machine) read() sample {
	now := time.Since(m.began)
	m.busy += uint64(m.share.Load()) * uint64(now-m.at) / 100
	m.total, m.at = m.total+uint64(now-m.at), now
	return sample{busy: m.busy, total: m.total, memory: 3 << 30, memoryOf: 8 << 30, average: new(150)}
}

func TestAnHourIsRememberedInHalfMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		box := &machine{began: time.Now().Add(-time.Hour)}
		box.share.Store(25)
		m := &Meter{read: box.read}
		go m.Run(ctx)
		synctest.Wait()
		if l := m.Now(); l == nil || l.CPU != nil || *l.Memory != 3<<30 || *l.Average != 150 {
			t.Errorf("at the start, when processors are not known yet: %+v", l)
		}
		time.Sleep(first + time.Millisecond)
		was := m.Now()
		if was.CPU == nil || *was.CPU != 250 {
			t.Errorf("after the second look: %+v", was)
		}
		time.Sleep(5 * time.Minute)
		if m.Now() != was {
			t.Error("others are told what they know already")
		}
		box.share.Store(75)
		time.Sleep(2 * time.Hour)
		hour := m.past()
		if m.Now() == was || len(hour) != kept {
			t.Fatalf("%d points, now %+v", len(hour), m.Now())
		}
		for i, p := range hour {
			if *p.Load.CPU != 750 || i > 0 && p.At-hour[i-1].At != step.Milliseconds() {
				t.Fatalf("point %d: %+v, %d ms after the one before", i, p, p.At-hour[max(0, i-1)].At)
			}
		}
		cancel()
		synctest.Wait()
	})
}

func TestWhatASystemDoesNotTellIsLeftOut(t *testing.T) {
	m := &Meter{read: func() sample { return sample{} }}
	m.look(time.Now())
	m.look(time.Now())
	if l := m.Now(); l.CPU != nil || l.Memory != nil || l.Average != nil {
		t.Errorf("%+v", l)
	}
	if l := Of(m.Now()); l.CPU != nil || l.Memory != nil || l.Average != nil {
		t.Errorf("%+v", l)
	}
}

func TestThisMachineSaysHowBusyItIs(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("what is known differs between systems")
	}
	s := read()
	if s.total == 0 || s.busy > s.total || s.memory <= 0 || s.memory > s.memoryOf || s.average == nil {
		t.Errorf("%+v", s)
	}
	if l := s.since(sample{}); l.Check() != nil {
		t.Error(l.Check())
	}
}

// two are a peer that is asked, and another one whose hour is what it is given.
func two(t *testing.T, answer func(question) told) *Hours {
	m := &Meter{read: func() sample { return sample{memory: 1, memoryOf: 2} }}
	m.look(time.Now())
	return &Hours{
		Self: "a", Meter: m, Name: func(p taskstate.PeerID) string { return "name of " + string(p) },
		Find: func(p string) (taskstate.PeerID, error) { return taskstate.PeerID(p), nil },
		Dial: func(context.Context, string, string) (net.Conn, error) {
			if answer == nil {
				return nil, errors.New("gone")
			}
			c, s := net.Pipe()
			go func() {
				defer s.Close()
				var q question
				_ = wire.NewReader(s, maxFrame).Read(&q)
				_ = wire.NewWriter(s, maxFrame).Send(answer(q))
			}()
			return c, nil
		},
	}
}

func TestAnotherPeersHourIsAskedForAndLaidOutByItsAge(t *testing.T) {
	const clock = 5_000_000_000_000 // of a machine whose clock is wrong
	h := two(t, func(q question) told {
		return told{Ago: 10_000, Now: &session.Load{CPU: new(900)}, Points: []point{
			{At: clock - 3_600_000, Load: session.Load{CPU: new(1)}}, // too long ago
			{At: clock - 90_000, Load: session.Load{CPU: new(200), Memory: new(int64(1)), MemoryOf: 2}},
			{At: clock, Load: session.Load{CPU: new(400), Average: new(50)}},
		}}
	})
	got, err := h.PeerLoad(t.Context(), "b")
	if err != nil || got.PeerName != "name of b" || *got.Now.CPU != 0.9 || len(got.Hour) != kept {
		t.Fatalf("%+v, %v", got, err)
	}
	for i, l := range got.Hour {
		switch i {
		case kept - 1:
			if *l.CPU != 0.4 || *l.Average != 0.5 || l.Memory != nil {
				t.Errorf("the newest: %+v", l)
			}
		case kept - 4:
			if *l.CPU != 0.2 || *l.Memory != 1 {
				t.Errorf("a minute and a half before it: %+v", l)
			}
		default:
			if l != nil {
				t.Errorf("%d: %+v", i, l)
			}
		}
	}
	if own, err := h.PeerLoad(t.Context(), "a"); err != nil || *own.Now.Memory != 1 {
		t.Errorf("one's own: %+v, %v", own, err)
	}
}

func TestWhatNoMachineTellsIsNotPassedOn(t *testing.T) {
	h := two(t, func(question) told {
		var all []point
		for i := range 1000 {
			all = append(all, point{At: int64(i) * 1e6, Load: session.Load{CPU: new(2000)}}, point{At: int64(-i)})
		}
		return told{Ago: -1 << 62, Now: &session.Load{Memory: new(int64(2))}, Points: append(all, point{At: 1 << 62}, point{At: -1 << 62})}
	})
	got, err := h.PeerLoad(t.Context(), "b")
	if err != nil || got.Now != nil || fmt.Sprint(got.Hour) != fmt.Sprint(make([]any, kept)) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestAPeerThatDoesNotAnswerIsNamed(t *testing.T) {
	_, err := two(t, nil).PeerLoad(t.Context(), "b")
	if err == nil || !bytes.Contains([]byte(err.Error()), []byte("name of b does not say")) {
		t.Error(err)
	}
}

func TestTheHourIsServed(t *testing.T) {
	asked := two(t, nil)
	asked.Meter.hour = []point{{At: time.Now().UnixMilli(), Load: session.Load{CPU: new(10)}}}
	h := two(t, nil)
	h.Dial = func(context.Context, string, string) (net.Conn, error) {
		c, s := net.Pipe()
		go asked.Serve("a", s)
		return c, nil
	}
	got, err := h.PeerLoad(t.Context(), "b")
	if err != nil || got.Hour[kept-1] == nil || *got.Hour[kept-1].CPU != 0.01 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestTheWordsOfTheProtocolStayWhatTheyAre(t *testing.T) {
	golden.Wires(t, "wires.txt", golden.Wire{Name: Protocol, Frames: map[string]any{"question": &question{}, "answer": &told{}}})
}
