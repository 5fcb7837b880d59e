package sim

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/membership/verdict"
	"github.com/coveyproject/covey/node/care"
	"github.com/coveyproject/covey/node/keep"
	"github.com/coveyproject/covey/taskstate"
)

// search is how a task that is saved looks for copies: the real search, with streams of the
// simulation.
type search struct {
	core *keep.Search
	rep  taskstate.RunReport
	asks map[taskstate.PeerID]*asking
	turn int
	able []*peer // that could keep a copy when it began
}

// asking is one peer that was asked to keep something.
type asking struct {
	link *link
	done func(moved int64, over bool, err error)
	over bool
}

// What goes over the stream of such a request.
type (
	keepThis struct {
		id    taskstate.TaskID
		saved taskstate.Saved
		read  bool // who has it finds out whether it is right
	}
	keepAnswer struct {
		moved int64
		kept  bool
		no    *keep.Refused
	}
)

var errBroken = errors.New("the stream broke")

// copied has others keep what a task left, and then tells its end.
func (s *saving) copied(rep taskstate.RunReport, copies int) {
	l := s.l
	s.search = search{rep: rep, asks: map[taskstate.PeerID]*asking{}, able: l.w.check.files.able(l, s.saved.Bytes)}
	var willing []taskstate.PeerID
	for _, p := range keep.Order(s.launch.Task, s.launch.Job.Submitter, l.others()) {
		if l.shy[p] <= l.w.now() {
			willing = append(willing, p)
		}
	}
	s.search.core = keep.NewSearch(copies-1, willing, l.mono())
	s.step(keep.Event{})
}

// others are the members that are here, as far as this peer knows.
func (l *life) others() (out []taskstate.PeerID) {
	l.replica.Read(func(st *ledger.State) {
		for n, p := range l.w.peers {
			m, in := st.Member(p.id)
			if v := l.views[n].verdict; in && m.In() && p != l.p && v != verdict.Dead && v != verdict.None {
				out = append(out, p.id)
			}
		}
	})
	return out
}

func (s *saving) step(ev keep.Event) {
	l, f := s.l, &s.search
	if !s.is() {
		return
	}
	out := f.core.Step(ev, l.mono())
	for _, id := range out.Drop {
		f.asks[id].drop()
	}
	for _, id := range out.Ask {
		f.asks[id] = l.askKeep(l.w.byID[id], keepThis{id: s.launch.Task, saved: *s.saved}, func(moved int64, over bool, err error) {
			s.step(keep.Event{Peer: id, Bytes: moved, Done: over, Err: err})
		})
	}
	if out.Over {
		s.found()
		return
	}
	f.turn++
	turn := f.turn
	if !out.Wake.IsZero() {
		l.after(max(0, out.Wake.Sub(l.mono())), func() {
			if f.turn == turn {
				s.step(keep.Event{})
			}
		})
	}
}

// found tells the end of a task for which enough copies were found, or no more are looked for.
func (s *saving) found() {
	l := s.l
	kept, no := s.search.core.Kept()
	for _, n := range no {
		var told *keep.Refused
		switch {
		case errors.As(n.Why, &told) && told.Code == keep.CodeNone:
			l.shy[n.Peer] = l.w.now() + 10*time.Minute
		case errors.As(n.Why, &told) && told.Code == keep.CodeFull:
			l.shy[n.Peer] = l.w.now() + time.Minute
		case told == nil:
			l.shy[n.Peer] = l.w.now() + 30*time.Second
		}
	}
	saved := *s.saved
	saved.Keep = s.launch.Job.Copies()
	saved.Keepers = append([]taskstate.PeerID{l.p.id}, kept...)
	if l.w.cfg.Break == BreakEmptyWord {
		saved.Keepers = append(saved.Keepers[:1:1], l.others()...)
		saved.Keepers = saved.Keepers[:min(len(saved.Keepers), saved.Keep)]
	}
	if l.w.cfg.Break == BreakNoCopies {
		saved.Keepers = saved.Keepers[:1]
	}
	l.w.stats.Copies += len(kept)
	if len(saved.Keepers) < saved.Keep {
		saved.Why = "nobody else"
		l.w.stats.Owed++
	}
	s.search.rep.Saved = &saved
	l.w.check.files.owed(s, &saved, len(no))
	s.over(s.search.rep)
}

// askKeep asks a peer to keep something, over a stream of its own.
func (l *life) askKeep(to *peer, what keepThis, done func(moved int64, over bool, err error)) *asking {
	w := l.w
	r := &asking{done: done}
	d := w.net.delay(l.p, to) + w.net.delay(to, l.p)
	if !w.net.both(l.p, to) || to.off || to.frozen > w.now() {
		d = dialLimit
	}
	l.after(min(d, dialLimit), func() {
		switch {
		case r.over:
			return
		case to.life == nil || !w.net.both(l.p, to) || to.frozen > w.now():
			r.end(errBroken)
			return
		}
		mine, theirs := w.connect(l, to.life)
		r.link = mine
		mine.recv = func(v any) {
			switch a := v.(keepAnswer); {
			case a.kept:
				mine.abort()
				r.end(nil)
			case a.no != nil:
				mine.abort()
				r.end(a.no)
			case !r.over:
				r.done(a.moved, false, nil)
			}
		}
		mine.lost = func() { r.end(errBroken) }
		k := to.life
		theirs.recv = func(v any) { k.keepFor(theirs, l.p, v.(keepThis)) }
		mine.send(what)
	})
	return r
}

func (r *asking) end(err error) {
	if !r.over {
		r.over = true
		r.done(0, true, err)
	}
}

// drop waits no longer for the answer.
func (r *asking) drop() {
	r.over = true
	if r.link != nil {
		r.link.abort()
	}
}

// keepFor is the keeper's side.
func (l *life) keepFor(x *link, from *peer, what keepThis) {
	w, p := l.w, l.p
	no := func(code string) { x.send(keepAnswer{no: &keep.Refused{Code: code}}) }
	t := p.files.of[what.id]
	if what.read && t != nil && t.is != t.root {
		t.damaged = true
	}
	switch {
	case t != nil && t.pinned && !t.damaged:
		w.check.files.says(what.id, p)
		x.send(keepAnswer{kept: true})
		return
	case p.files.quota == 0:
		no(keep.CodeNone)
		return
	case l.fetching >= keep.MaxFetching || w.chance(0.02) && !w.calm:
		no(keep.CodeBusy)
		return
	}
	f := l.fetch(what.id, what.saved, func() []taskstate.PeerID { return []taskstate.PeerID{from.id} })
	x.lost = func() { f.give() }
	f.moved = func(n int64) { x.send(keepAnswer{moved: n}) }
	f.done = func(is care.Outcome) {
		switch is {
		case care.OK:
			t := p.files.of[what.id]
			if !t.pinned {
				t.pinned, t.released, t.until = true, false, w.now()+time.Hour
			}
			w.check.files.says(what.id, p)
			x.send(keepAnswer{kept: true})
		case care.NoRoom:
			no(keep.CodeFull)
		default:
			no(keep.CodeFailed)
		}
	}
}

// fetch brings a thing here from whoever has it.
type fetch struct {
	l     *life
	id    taskstate.TaskID
	saved taskstate.Saved
	from  func() []taskstate.PeerID
	moved func(n int64)
	done  func(care.Outcome)
	over  bool
	got   int64
	rate  int64
	idle  time.Duration // since when nobody gives anything
	at    *life         // who gives it
}

// fetchIdle is how long a fetch waits for somebody who has it.
const fetchIdle = 15 * time.Second

// fetch begins one; its done is called later, once, unless it is given up or the process ends.
func (l *life) fetch(id taskstate.TaskID, saved taskstate.Saved, from func() []taskstate.PeerID) *fetch {
	w := l.w
	f := &fetch{l: l, id: id, saved: saved, from: from, rate: pick(w, int64(200)<<20, 200<<20, 20<<20, 1<<20), idle: w.now(), moved: func(int64) {}}
	l.fetching++
	l.after(w.ms(0, 20), func() {
		if d := &l.p.files; d.of[id] == nil && !d.reserve(f, saved.Bytes) { // what is damaged has its room
			f.end(care.NoRoom)
			return
		}
		f.step()
	})
	return f
}

func (f *fetch) end(is care.Outcome) {
	if f.over {
		return
	}
	f.give()
	f.done(is)
}

// give gives it up.
func (f *fetch) give() {
	if f.over {
		return
	}
	f.over = true
	f.l.fetching--
	delete(f.l.p.files.coming, f)
	f.leave()
}

// leave lets the source do with its copy what it likes.
func (f *fetch) leave() {
	if f.at != nil {
		if f.at.reading[f.id]--; f.at.reading[f.id] == 0 {
			delete(f.at.reading, f.id)
		}
		f.at = nil
	}
}

// step brings some more of it, or looks for another source.
func (f *fetch) step() {
	l, w := f.l, f.l.w
	if f.over {
		return
	}
	d := w.ms(50, 500)
	src := f.source()
	switch {
	case l.p.files.has(f.id): // somebody else brought it
		f.end(care.OK)
		return
	case src == nil && w.now()-f.idle > fetchIdle:
		f.end(care.Failed)
		return
	case src != nil:
		f.idle = w.now()
		rate := f.rate
		if w.net.slow[l.p.n]+w.net.slow[src.p.n] > 0 {
			rate = 300 << 10
		}
		if f.got += int64(float64(rate) * d.Seconds()); f.got >= f.saved.Bytes {
			l.after(d, f.arrived)
			return
		}
		f.moved(f.got)
	}
	l.after(d, f.step)
}

// source is who gives it now, and leases it as long as it does.
func (f *fetch) source() *life {
	w := f.l.w
	gives := func(p *peer) bool {
		return p != f.l.p && p.life != nil && p.frozen <= w.now() && w.net.both(f.l.p, p) && p.files.has(f.id)
	}
	if f.at != nil && (f.at.dead || !gives(f.at.p)) {
		f.leave()
	}
	if f.at == nil {
		for _, id := range f.from() {
			if p := w.byID[id]; p != nil && gives(p) {
				f.at = p.life
				f.at.reading[f.id]++
				break
			}
		}
	}
	return f.at
}

// arrived checks what came. A source of which it is not what it should be finds out.
func (f *fetch) arrived() {
	l, w := f.l, f.l.w
	src := f.source()
	switch {
	case f.over:
		return
	case src == nil:
		f.step()
		return
	}
	t := src.p.files.of[f.id]
	if t.is != t.root && w.cfg.Break != BreakBelieve {
		w.tracef("%s finds what %s has of %s damaged", l.p.id, src.p.id, f.id)
		t.damaged = true
		f.leave()
		f.got = 0
		f.step()
		return
	}
	d := &l.p.files
	if d.coming[f] == 0 && d.of[f.id] == nil && !d.reserve(f, f.saved.Bytes) { // the damaged copy whose room it has was let go meanwhile
		f.end(care.NoRoom)
		return
	}
	delete(d.coming, f)
	d.put(f.id, t.root, t.is, f.saved.Bytes)
	f.end(care.OK)
}

// carer drives the core of node/care, as Care does.
type carer struct {
	l        *life
	core     *care.Core
	peers    map[taskstate.PeerID]care.Peer
	all      bool
	heard    []taskstate.TaskID
	gone     map[taskstate.JobID]bool
	known    map[taskstate.TaskID]bool // what the core may have
	compared time.Duration
}

// careFor begins to look after the files of a peer.
func (l *life) careFor() {
	if !l.w.withFiles {
		return
	}
	c := &carer{l: l, core: care.NewCore(l.p.id, l.mono()), all: true, gone: map[taskstate.JobID]bool{}, known: map[taskstate.TaskID]bool{}}
	l.replica.Observe(c.hear)
	l.every(300*time.Millisecond, 1500*time.Millisecond, c.look)
	l.every(5*time.Second, 30*time.Second, l.p.files.tidy)
}

func (c *carer) hear(ev ledger.Event) {
	c.all = c.all || ev.Reset
	for i := range ev.Entry.Commands {
		switch cmd := &ev.Entry.Commands[i]; {
		case cmd.Settle != nil:
			for j := range cmd.Settle.Statuses {
				if s := &cmd.Settle.Statuses[j]; s.Saved != nil {
					c.heard = append(c.heard, s.Task)
				}
			}
		case cmd.Kept != nil:
			for _, run := range cmd.Kept.Slots {
				for n := range run.All() {
					c.heard = append(c.heard, taskstate.Task(cmd.Kept.Job, n, run.Attempt))
				}
			}
		}
	}
	for _, f := range ev.Forgot {
		c.gone[f.Job] = true
	}
}

// look takes in what has changed.
func (c *carer) look() {
	l, now := c.l, c.l.mono()
	c.see(now)
	held := map[taskstate.TaskID]care.PinState{}
	for id, t := range l.p.files.of {
		switch {
		case !t.pinned:
			continue
		case t.damaged:
			held[id] = care.Damaged
		case t.until > 0:
			held[id] = care.ForNow
		default:
			held[id] = care.ForGood
		}
		c.known[id] = true
	}
	c.begin(c.core.Holds(held, now))
	if d := &l.p.files; d.quota < 1<<39 {
		c.begin(c.core.Tight(d.kept() > d.quota*9/10, now))
	}
	heard, all := c.heard, c.all
	c.heard, c.all = nil, false
	if all {
		heard = nil
		l.replica.Read(func(st *ledger.State) {
			for j := range st.Jobs() {
				for id := range j.Saved() {
					heard = append(heard, id)
				}
			}
		})
	}
	c.take(heard)
	if len(c.gone) > 0 {
		var ids []taskstate.TaskID
		for id := range c.known {
			if c.gone[id.Job] {
				ids = append(ids, id)
			}
		}
		clear(c.gone)
		c.begin(c.core.Forget(sorted(ids), false, now))
	}
	if all || l.w.now()-c.compared > time.Minute {
		c.compared = l.w.now()
		c.compare()
	}
	c.begin(c.core.Tick(now))
}

// see tells the core who is here.
func (c *carer) see(now time.Time) {
	l := c.l
	peers := map[taskstate.PeerID]care.Peer{}
	l.replica.Read(func(st *ledger.State) {
		for n, p := range l.w.peers {
			m, in := st.Member(p.id)
			if !in || !m.In() {
				continue
			}
			v := l.views[n]
			here := p == l.p || v.verdict != verdict.Dead && v.verdict != verdict.None
			peers[p.id] = care.Peer{Here: here, Since: birth.Add(v.since), Drained: m.Availability == ledger.AvailDrain}
		}
	})
	if !maps.Equal(peers, c.peers) {
		c.peers = peers
		c.begin(c.core.Sees(peers, now))
	}
}

// take takes in what the ledger says of some things that concern this peer.
func (c *carer) take(ids []taskstate.TaskID) {
	var found []care.FileSet
	c.l.replica.Read(func(st *ledger.State) {
		for _, id := range ids {
			t, is := care.LedgerStateOf(st, id, c.l.p.id)
			if is != care.IsKept || !c.known[id] && t.Owner != c.l.p.id && !named(t.Saved, c.l.p.id) {
				continue
			}
			c.known[id] = true
			found = append(found, t)
		}
	})
	if len(found) > 0 {
		c.begin(c.core.Keep(found, c.l.mono()))
	}
}

// compare finds what the ledger does not know, or not any more.
func (c *carer) compare() {
	var was, never []taskstate.TaskID
	ids := make([]taskstate.TaskID, 0, len(c.known))
	for id := range c.known {
		ids = append(ids, id)
	}
	ids = sorted(ids)
	current := int(c.l.replica.Applied()) == len(c.l.w.quorum.log)
	c.l.replica.Read(func(st *ledger.State) {
		for _, id := range ids {
			switch _, is := care.LedgerStateOf(st, id, c.l.p.id); {
			case is == care.IsOver, c.l.w.cfg.Break == BreakForgetful && is == care.IsKept && c.l.p.n%2 == 0:
				was = append(was, id)
			case is == care.IsUnknown && current:
				never = append(never, id)
			}
		}
	})
	c.take(ids)
	c.begin(c.core.Forget(was, false, c.l.mono()))
	c.begin(c.core.Forget(never, true, c.l.mono()))
}

// begin has something done.
func (c *carer) begin(dos []care.Action) {
	l, w := c.l, c.l.w
	for _, d := range dos {
		id := d.Thing.ID
		done := func(is care.Outcome) {
			if is != care.OK && w.tracing() {
				w.tracef("%s: %d of %s came to %d", l.p.id, d.Kind, id, is)
			}
			c.begin(c.core.Done(d, is, l.mono()))
		}
		switch d.Kind {
		case care.Tell:
			l.tellKept(id, d.Lost, false, done)
		case care.Lose:
			l.tellKept(id, []taskstate.PeerID{l.p.id}, true, done)
		case care.Release:
			c.release(&d.Thing, done)
		case care.Bring, care.BringSmall:
			f := l.fetch(id, *d.Thing.Saved, func() []taskstate.PeerID {
				return append(append(append([]taskstate.PeerID{}, d.Thing.Saved.Keepers...), d.Thing.Owner), l.others()...)
			})
			f.done = func(is care.Outcome) {
				if is == care.OK {
					t := l.p.files.of[id]
					t.pinned, t.released, t.until = true, false, 0
				}
				done(is)
			}
		case care.Fasten, care.Drop:
			l.after(w.ms(0, 20), func() {
				t := l.p.files.of[id]
				switch {
				case t == nil:
				case d.Kind == care.Drop:
					t.pinned = false
				default:
					t.until = 0
				}
				done(care.OK)
			})
		case care.Ask:
			c.ask(d.Peer, &d.Thing, false, done)
		}
	}
}

// ask has a peer keep a thing.
func (c *carer) ask(peer taskstate.PeerID, t *care.FileSet, read bool, done func(care.Outcome)) {
	l, w := c.l, c.l.w
	came, moved := int64(0), w.now()
	r := l.askKeep(w.byID[peer], keepThis{t.ID, *t.Saved, read}, func(n int64, over bool, err error) {
		if over {
			done(outcomeOf(err))
		} else if n > came {
			came, moved = n, w.now()
		}
	})
	var stalled func()
	stalled = func() {
		switch left := moved + keep.Stall - w.now(); {
		case r.over:
		case left > 0:
			l.after(left, stalled)
		default:
			r.drop()
			done(care.Failed)
		}
	}
	l.after(keep.Stall, stalled)
}

// release lets go of a copy, if the others really have theirs, and the ledger agrees.
func (c *carer) release(t *care.FileSet, done func(care.Outcome)) {
	l, n, home := c.l, 0, false
	var others []taskstate.PeerID
	for _, id := range t.Saved.Keepers {
		if id != l.p.id {
			others = append(others, id)
		}
	}
	waits := len(others)
	for _, id := range others {
		c.ask(id, t, true, func(is care.Outcome) {
			if waits--; is == care.OK {
				n, home = n+1, home || id == t.Owner
			}
			switch {
			case waits > 0:
			case n < t.Saved.Keep || !home:
				done(care.Failed)
			default:
				l.tellKept(t.ID, nil, true, func(is care.Outcome) {
					if is == care.OK {
						l.p.files.release(t.ID)
					}
					done(is)
				})
			}
		})
	}
}

// tellKept has the coordinator decide that something is kept here, and not any more by those who
// are lost; or, not: that it is not kept here any more.
func (l *life) tellKept(id taskstate.TaskID, lost []taskstate.PeerID, not bool, done func(care.Outcome)) {
	w, to := l.w, l.hint.peer
	over := false
	answer := func(is care.Outcome) {
		if !over {
			over = true
			done(is)
		}
	}
	l.after(10*time.Second, func() { answer(care.Failed) })
	if to == nil || to.life == nil || !w.net.both(l.p, to) {
		return
	}
	at := to.life
	at.after(w.net.delay(l.p, to), func() {
		if at.leading == nil {
			return
		}
		k := &ledger.Kept{Peer: l.p.id, Job: id.Job, Slots: []ledger.Slots{{First: id.Slot, N: 1, Attempt: id.Attempt}}, Lost: lost, Not: not}
		w.quorum.propose(at, []ledger.Command{{Kept: k}}, func(results []ledger.Result, ok bool) {
			if ok && w.net.both(l.p, to) {
				is := care.OK
				if results[0].Refused != ledger.CodeNone {
					is = care.Failed
				}
				l.after(w.net.delay(to, l.p), func() { answer(is) })
			}
		})
	})
}

// outcomeOf is what a peer's answer says.
func outcomeOf(err error) care.Outcome {
	var no *keep.Refused
	switch {
	case err == nil:
		return care.OK
	case !errors.As(err, &no):
		return care.Failed
	case no.Code == keep.CodeNone:
		return care.Refuses
	case no.Code == keep.CodeFull:
		return care.NoRoom
	case no.Code == keep.CodeBusy:
		return care.Busy
	}
	return care.Failed
}

func sortedPeers[T any](of map[taskstate.PeerID]T) []taskstate.PeerID {
	return slices.Sorted(maps.Keys(of))
}
