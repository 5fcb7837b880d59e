package care

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/internal/wake"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/blob"
	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/node/blob/store"
	"github.com/coveyproject/covey/node/blob/tree"
	"github.com/coveyproject/covey/node/keep"
	"github.com/coveyproject/covey/taskstate"
)

// Config joins care with the rest of a peer.
type Config struct {
	Self    taskstate.PeerID
	Store   *store.Store
	Net     blob.Dialer
	Replica Replica
	Current func() bool                      // this peer's copy of the ledger can be believed when it does not know a job
	Peers   func() map[taskstate.PeerID]Peer // all members
	// Tell says to the ledger who keeps what; it is an error if of one of the tasks that is not so
	// then. Nil: nobody says it.
	Tell func(ctx context.Context, k ledger.Kept) error
	// Held are jobs that wait at this peer until somebody accepts them. May be nil.
	Held func() []*taskstate.Job
	// Full is told that what tasks left here takes all the room there is for it, and with nil that
	// it does not any more. May be nil.
	Full func(error)
	Now  func() time.Time
	Log  *slog.Logger
}

// Replica is the ledger as far as this peer has heard.
type Replica interface {
	Read(func(*ledger.State))
	Observe(func(ledger.Event)) (cancel func())
}

// Care looks after what is kept here. Its loop owns the core.
type Care struct {
	cfg   Config
	wake  wake.Signal
	asked chan func() // to be done by the loop
	ended chan struct{}

	mu    sync.Mutex // guards what was heard
	heard heard

	life    context.Context // of Run
	core    *Core           // from here on: the loop's
	results chan result
	wg      sync.WaitGroup
	peers   map[taskstate.PeerID]Peer
	checked time.Time // when pins and ledger were compared last
	fast    time.Time // when the pins were looked at last
	stale   bool      // they are others by now
	damaged bool      // something they name is not here any more
	full    bool
	tight   bool
}

// heard is what the ledger was heard to say.
type heard struct {
	all   bool // too much, or of a new state
	tasks []taskstate.TaskID
	gone  []taskstate.JobID
}

// maxHeard is how many of them are remembered one by one.
const maxHeard = 100_000

// result is what came of several things.
type result struct {
	dos []Action
	is  Outcome
}

// New makes it of its parts; Run brings it to life.
func New(cfg Config) *Care {
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return &Care{cfg: cfg, wake: wake.New(), asked: make(chan func()), ended: make(chan struct{}), results: make(chan result)}
}

// News says that members may have come or gone.
func (c *Care) News() { c.wake.Set() }

const (
	compareEvery = time.Minute // pins and ledger
	pinsEvery    = time.Second // the pins are listed at most so often
	gather       = 50 * time.Millisecond
)

// Run looks after what is kept until ctx ends. It is called once.
func (c *Care) Run(ctx context.Context) error {
	defer close(c.ended)
	ctx, cancel := context.WithCancel(ctx)
	defer c.wg.Wait()
	defer cancel()
	c.core = NewCore(c.cfg.Self, c.cfg.Now())
	c.heard.all, c.life = true, ctx
	defer c.cfg.Replica.Observe(c.hear)()
	c.wake.Set()
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.wake:
			c.look(ctx)
		case <-c.cfg.Store.Damaged():
			c.damaged, c.fast = true, time.Time{}
			c.look(ctx)
		case <-c.cfg.Store.Repinned():
			c.stale = true
			c.look(ctx)
		case r := <-c.results:
			var next []Action
			for _, d := range r.dos {
				next = append(next, c.core.Done(d, r.is, c.cfg.Now())...)
			}
			c.begin(ctx, next)
		case f := <-c.asked:
			c.look(ctx)
			f()
		case <-t.C:
			c.look(ctx)
			c.begin(ctx, c.core.Tick(c.cfg.Now()))
		}
		wait := compareEvery
		if c.stale {
			wait = max(gather, pinsEvery-c.cfg.Now().Sub(c.fast))
		}
		if next := c.core.Next(); !next.IsZero() {
			wait = min(wait, max(gather, next.Sub(c.cfg.Now())))
		}
		t.Reset(wait)
	}
}

// at has the loop do something with the core.
func (c *Care) at(ctx context.Context, f func()) error {
	done := make(chan struct{})
	select {
	case c.asked <- func() { f(); close(done) }:
		<-done
		return nil
	case <-c.ended:
		return errors.New("this peer is about to end")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// hear notes what an entry of the ledger changes. It is called by who feeds the replica.
func (c *Care) hear(ev ledger.Event) {
	c.mu.Lock()
	h := &c.heard
	before := len(h.tasks) + len(h.gone)
	h.all = h.all || ev.Reset
	for i := range ev.Entry.Commands {
		switch cmd := &ev.Entry.Commands[i]; {
		case cmd.Settle != nil:
			for j := range cmd.Settle.Statuses {
				if s := &cmd.Settle.Statuses[j]; s.Saved != nil {
					h.tasks = append(h.tasks, s.Task)
				}
			}
		case cmd.Kept != nil:
			for _, run := range cmd.Kept.Slots {
				for n := range run.All() {
					if h.tasks = append(h.tasks, taskstate.Task(cmd.Kept.Job, n, run.Attempt)); len(h.tasks) > maxHeard {
						break
					}
				}
			}
		case cmd.Submit != nil && len(cmd.Submit.Job.Inputs) > 0 && cmd.Submit.Job.Submitter == c.cfg.Self:
			h.tasks = append(h.tasks, inputsOf(cmd.Submit.Job.ID))
		}
	}
	for _, f := range ev.Forgot {
		h.gone = append(h.gone, f.Job)
	}
	after := len(h.tasks) + len(h.gone)
	if h.all || after > maxHeard {
		*h = heard{all: true}
	}
	news := h.all || after > before || moves(ev)
	c.mu.Unlock()
	if news {
		c.wake.Set()
	}
}

// moves tells whether an entry changes who is to keep something.
func moves(ev ledger.Event) bool {
	return slices.ContainsFunc(ev.Entry.Commands, func(c ledger.Command) bool {
		return c.Avail != nil || c.Remove != nil || c.Admit != nil
	})
}

// look takes in all that changed.
func (c *Care) look(ctx context.Context) {
	now := c.cfg.Now()
	if peers := c.cfg.Peers(); !maps.Equal(peers, c.peers) {
		c.peers = peers
		c.begin(ctx, c.core.Sees(peers, now))
	}
	c.mu.Lock()
	h := c.heard
	c.heard = heard{}
	c.mu.Unlock()
	if h.all || c.damaged || now.Sub(c.fast) >= pinsEvery && (c.stale || len(h.tasks) > 0) {
		c.fast, c.stale = now, false
		c.damaged = c.damaged || h.all
		c.begin(ctx, c.core.Holds(c.held(), now))
		for id, t := range c.core.things {
			if !t.known { // it may have been kept here before the ledger said so, or after
				h.tasks = append(h.tasks, id)
			}
		}
	}
	switch {
	case h.all:
		c.takeAll(ctx)
	case len(h.tasks) > 0:
		c.take(ctx, h.tasks)
	}
	if len(h.gone) > 0 {
		c.forget(ctx, h.gone)
	}
	if h.all || now.Sub(c.checked) >= compareEvery {
		c.checked = now
		c.compare(ctx)
	}
	if tight := c.cfg.Store.Tight(); tight != c.tight {
		c.tight = tight
		c.begin(ctx, c.core.Tight(tight, now))
	}
	c.tellFull()
}

// held is how things are pinned here.
func (c *Care) held() map[taskstate.TaskID]PinState {
	out := map[taskstate.TaskID]PinState{}
	for _, p := range c.cfg.Store.Pins() {
		if id, ok := taskOf(p.Name); ok {
			out[id] = ForGood
			if !p.Until.IsZero() {
				out[id] = ForNow
			}
		}
	}
	for id, t := range c.core.things {
		if _, pinned := out[id]; pinned && t.held == Damaged {
			out[id] = Damaged
		}
	}
	if c.damaged {
		c.damaged = false
		for _, name := range c.cfg.Store.Lacking() {
			if id, ok := taskOf(name); ok {
				out[id] = Damaged
			}
		}
	}
	return out
}

// atOnceRead bounds how long the replica is held up.
const atOnceRead = 1000

// takeAll takes in all that the ledger says is kept. Things of many jobs are taken in at once: what
// is little of them is brought together, and a peer gives to few fetches of another at once.
func (c *Care) takeAll(ctx context.Context) {
	var jobs []taskstate.JobID
	c.cfg.Replica.Read(func(s *ledger.State) {
		for j := range s.Jobs() {
			if j.Job().Saves() || len(j.Job().Inputs) > 0 {
				jobs = append(jobs, j.Job().ID)
			}
		}
	})
	var some []taskstate.TaskID
	for _, id := range jobs {
		some = append(some, inputsOf(id))
		c.cfg.Replica.Read(func(s *ledger.State) {
			if j, ok := s.Job(id); ok {
				for task := range j.Saved() {
					some = append(some, task)
				}
			}
		})
		if len(some) >= atOnceRead {
			c.take(ctx, some)
			some = some[:0]
		}
	}
	c.take(ctx, some)
}

// take takes in what the ledger says of some things.
func (c *Care) take(ctx context.Context, ids []taskstate.TaskID) {
	for some := range slices.Chunk(ids, atOnceRead) {
		var found []FileSet
		c.cfg.Replica.Read(func(s *ledger.State) {
			for _, id := range some {
				if t, is := LedgerStateOf(s, id, c.cfg.Self); is == IsKept {
					found = append(found, t)
				}
			}
		})
		c.keep(ctx, found)
	}
}

// keep takes in things that concern this peer.
func (c *Care) keep(ctx context.Context, found []FileSet) {
	found = slices.DeleteFunc(found, func(t FileSet) bool {
		return c.core.things[t.ID] == nil && t.Owner != c.cfg.Self && !slices.Contains(t.keepers(), c.cfg.Self)
	})
	if len(found) > 0 {
		c.begin(ctx, c.core.Keep(found, c.cfg.Now()))
	}
}

func (c *Care) forget(ctx context.Context, jobs []taskstate.JobID) {
	gone := map[taskstate.JobID]bool{}
	for _, id := range jobs {
		gone[id] = true
	}
	var ids []taskstate.TaskID
	for id := range c.core.things {
		if gone[id.Job] {
			ids = append(ids, id)
		}
	}
	c.begin(ctx, c.core.Forget(ids, false, c.cfg.Now()))
}

// compare finds what the ledger does not know, or not any more.
func (c *Care) compare(ctx context.Context) {
	current := c.cfg.Current() // before the look: see package sweep
	waits := c.waiting()
	c.begin(ctx, c.core.Keep(slices.Collect(maps.Values(waits)), c.cfg.Now()))
	for some := range slices.Chunk(slices.Collect(maps.Keys(c.core.things)), atOnceRead) {
		var is, was, never []FileSet
		c.cfg.Replica.Read(func(s *ledger.State) {
			for _, id := range some {
				t, f := LedgerStateOf(s, id, c.cfg.Self)
				t.ID = id
				switch {
				case f == IsKept:
					is = append(is, t)
				case f == IsOver:
					was = append(was, t)
				case f == IsUnknown && waits[id].Job != nil:
				case f == IsUnknown && current:
					never = append(never, t)
				}
			}
		})
		now := c.cfg.Now()
		c.begin(ctx, c.core.Keep(is, now))
		c.begin(ctx, c.core.Forget(idsOf(was), false, now))
		c.begin(ctx, c.core.Forget(idsOf(never), true, now))
	}
}

// waiting is what the tasks of jobs need that wait here until somebody accepts them.
func (c *Care) waiting() map[taskstate.TaskID]FileSet {
	out := map[taskstate.TaskID]FileSet{}
	if c.cfg.Held == nil {
		return out
	}
	for _, j := range c.cfg.Held() {
		if t := (FileSet{ID: inputsOf(j.ID), Owner: c.cfg.Self, Job: j}); len(refs(&t)) > 0 {
			out[t.ID] = t
		}
	}
	return out
}

func idsOf(things []FileSet) (ids []taskstate.TaskID) {
	for _, t := range things {
		ids = append(ids, t.ID)
	}
	return ids
}

// begin has something done. What is written to the disk or said to the ledger is so for many things
// at once.
func (c *Care) begin(ctx context.Context, dos []Action) {
	tell := map[taskstate.JobID][]Action{}
	var together [kinds][]Action
	for _, d := range dos {
		switch d.Kind {
		case Tell, Lose:
			tell[d.Thing.ID.Job] = append(tell[d.Thing.ID.Job], d)
		case Fasten, BringSmall:
			together[d.Kind] = append(together[d.Kind], d)
		default:
			c.wg.Go(func() { c.reportOutcome(ctx, c.carry(ctx, d), d) })
		}
	}
	for _, some := range tell {
		c.wg.Go(func() { c.reportOutcome(ctx, c.tell(ctx, some), some...) })
	}
	for _, some := range together {
		if len(some) > 0 {
			c.wg.Go(func() { c.carryAll(ctx, some) })
		}
	}
}

// carryAll does the same for many things together, or for each of them if that fails.
func (c *Care) carryAll(ctx context.Context, dos []Action) {
	f := c.fasten
	if dos[0].Kind == BringSmall {
		f = func(dos []Action) error { return c.bring(ctx, dos) }
	}
	is := c.outcome(f(dos), dos[0])
	if is == OK || len(dos) == 1 {
		c.reportOutcome(ctx, is, dos...)
		return
	}
	for i := range dos {
		c.reportOutcome(ctx, c.outcome(f(dos[i:i+1]), dos[i]), dos[i])
	}
}

// end tells the loop what came of something.
func (c *Care) reportOutcome(ctx context.Context, is Outcome, dos ...Action) {
	select {
	case c.results <- result{dos, is}:
	case <-ctx.Done():
	}
}

// tellPatience is how long telling the ledger may take: it is tried again.
const tellPatience = 10 * time.Second

// tell tells the ledger what of a job is kept here, or was lost here.
func (c *Care) tell(ctx context.Context, dos []Action) Outcome {
	if c.cfg.Tell == nil {
		return Failed
	}
	ctx, cancel := context.WithTimeout(ctx, tellPatience)
	defer cancel()
	for i, d := range dos {
		if d.Kind == Lose {
			dos[i].Lost = []taskstate.PeerID{c.cfg.Self}
		}
	}
	slices.SortFunc(dos, func(a, b Action) int {
		return cmp.Or(slices.Compare(a.Lost, b.Lost), a.Thing.ID.Compare(b.Thing.ID))
	})
	for len(dos) > 0 {
		k := ledger.Kept{Peer: c.cfg.Self, Job: dos[0].Thing.ID.Job, Lost: dos[0].Lost, Not: dos[0].Kind == Lose}
		n := 0
		for n < len(dos) && slices.Equal(dos[n].Lost, k.Lost) {
			id := dos[n].Thing.ID
			k.Slots = ledger.AppendSlots(k.Slots, ledger.Slots{First: id.Slot, N: 1, Attempt: id.Attempt})
			n++
		}
		if err := c.cfg.Tell(ctx, k); err != nil {
			c.cfg.Log.Debug("the ledger was not told what is kept here", "job", k.Job, "err", err)
			return Failed
		}
		dos = dos[n:]
	}
	return OK
}

func (c *Care) carry(ctx context.Context, d Action) Outcome {
	var err error
	switch name := pinName(d.Thing.ID); d.Kind {
	case Bring:
		err = c.bring(ctx, []Action{d})
	case Drop:
		if err = c.cfg.Store.Unpin(name); errors.Is(err, store.ErrAbsent) {
			err = nil
		}
	case Ask:
		return c.ask(ctx, d.Peer, &d.Thing, false)
	case Release:
		err = c.release(ctx, &d.Thing)
	}
	return c.outcome(err, d)
}

func (c *Care) outcome(err error, d Action) Outcome {
	switch {
	case err == nil:
		return OK
	case errors.Is(err, store.ErrNoRoom):
		return NoRoom
	}
	c.cfg.Log.Debug("not done for what is kept", "what", d.Thing.ID, "kind", d.Kind, "err", err)
	return Failed
}

// bring brings what of things is not here, from those who are likely to have it, or else from
// whoever has it, and pins them.
func (c *Care) bring(ctx context.Context, dos []Action) error {
	likely := func() (here []string) {
		peers := c.cfg.Peers()
		for i := range dos {
			t := &dos[i].Thing
			for _, id := range append(slices.Clone(t.keepers()), t.Owner) {
				if peers[id].Here && id != c.cfg.Self && !slices.Contains(here, id) {
					here = append(here, id)
				}
			}
		}
		return here
	}
	err := c.bringFrom(ctx, dos, likely)
	if errors.Is(err, blob.ErrNobody) {
		err = c.bringFrom(ctx, dos, c.here)
	}
	return err
}

// here are all others that are here.
func (c *Care) here() (here []string) {
	for id, p := range c.cfg.Peers() {
		if p.Here && id != c.cfg.Self {
			here = append(here, id)
		}
	}
	return here
}

func (c *Care) bringFrom(ctx context.Context, dos []Action, peers func() []string) error {
	var all []tree.Ref
	for i := range dos {
		all = append(all, refs(&dos[i].Thing)...)
	}
	fr := blob.Fetcher{Net: c.cfg.Net, Self: c.cfg.Self, Log: c.cfg.Log}
	b, err := blob.Bring(ctx, c.cfg.Store, false, fr, blob.Request{Peers: peers}, all...)
	if err != nil {
		return err
	}
	defer b.Close()
	var pins []store.Pin
	for i := range dos {
		t := &dos[i].Thing
		p := store.Pin{Name: pinName(t.ID), Why: "left by " + t.ID.String(), Roots: b.Roots}
		if t.Saved == nil {
			p.Why = "needed by job " + string(t.ID.Job)
		}
		if len(dos) > 1 { // each its own
			var trees []piece.Root
			for _, r := range refs(t) {
				trees = append(trees, r.Root)
			}
			if p.Roots, err = keep.Roots(c.cfg.Store, trees...); err != nil {
				return err
			}
		}
		pins = append(pins, p)
	}
	return c.cfg.Store.PinAll(pins...)
}

// ask has a peer keep a thing, as whoever made it does. read: it is to read its copy if it has one.
func (c *Care) ask(ctx context.Context, peer taskstate.PeerID, t *FileSet, read bool) Outcome {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stalled := time.AfterFunc(keep.Stall, cancel)
	defer stalled.Stop()
	r := keep.Request{Task: t.ID, Saved: *t.Saved, Holders: []string{c.cfg.Self}, Read: read}
	var came int64
	err := keep.Ask(ctx, c.cfg.Net, peer, r, func(bytes int64) {
		if bytes > came {
			came = bytes
			stalled.Reset(keep.Stall)
		}
	})
	var no *keep.Refused
	switch {
	case err == nil:
		return OK
	case !errors.As(err, &no), no.Code == keep.CodeFailed:
		c.cfg.Log.Debug("a copy was not made", "what", t.ID, "peer", peer, "err", err)
		return Failed
	case no.Code == keep.CodeFull:
		return NoRoom
	case no.Code == keep.CodeBusy:
		return Busy
	}
	return Refuses
}

// release lets go of a copy, if the others really have theirs, and the ledger agrees that it is not
// needed.
func (c *Care) release(ctx context.Context, t *FileSet) error {
	if c.cfg.Tell == nil {
		return errors.New("nobody tells the ledger")
	}
	n, home := 0, false
	for id, p := range c.cfg.Peers() { // who has it reads it; whose disk is a new one, or has rotted, brings it
		if id != c.cfg.Self && p.Here && !p.Drained && slices.Contains(t.keepers(), id) && c.ask(ctx, id, t, true) == OK {
			n, home = n+1, home || id == t.Owner
		}
	}
	if n < t.copies() || !home {
		return errors.New("not enough others have it")
	}
	id := t.ID
	ctx, cancel := context.WithTimeout(ctx, tellPatience)
	defer cancel()
	k := ledger.Kept{Peer: c.cfg.Self, Job: id.Job, Slots: []ledger.Slots{{First: id.Slot, N: 1, Attempt: id.Attempt}}, Not: true}
	if err := c.cfg.Tell(ctx, k); err != nil {
		return err
	}
	return c.cfg.Store.Unpin(pinName(id))
}

// fasten pins for good what is pinned for now.
func (c *Care) fasten(dos []Action) error {
	var pins []store.Pin
	for _, d := range dos {
		p, ok := c.cfg.Store.PinNamed(pinName(d.Thing.ID))
		if !ok {
			return fmt.Errorf("pin of %s: %w", d.Thing.ID, store.ErrAbsent)
		}
		p.Until = time.Time{}
		pins = append(pins, p)
	}
	return c.cfg.Store.PinAll(pins...)
}

// tellFull says when what tasks left here takes all the room there is for it: it stays, and nothing
// more is to come.
func (c *Care) tellFull() {
	if c.cfg.Full == nil {
		return
	}
	taken, quota := c.cfg.Store.Taken()
	var sum int64
	for _, t := range c.core.things {
		if t.Saved != nil && t.held != NotPinned {
			sum += t.Saved.Bytes
		}
	}
	// Equal files of several tasks take room once, and what people put is their own affair.
	switch full := quota > 0 && min(sum, taken) >= quota; {
	case full == c.full:
	case full:
		c.full = true
		c.cfg.Full(errFull{sum, quota})
	default:
		c.full = false
		c.cfg.Full(nil)
	}
}

// errFull is why a peer takes no more.
type errFull struct{ bytes, quota int64 }

// Code is what programs know it by, as api.Trouble has it.
func (errFull) Code() string { return api.TroubleStoreFull }

func (e errFull) Error() string {
	return fmt.Sprintf("what tasks left here takes %d MiB, and %d MiB are for it", e.bytes>>20, e.quota>>20)
}

// jobBegin is how the pin of what a job needs begins; its id follows.
const jobBegin = "job-"

// pinName is the name of a thing's pin.
func pinName(id taskstate.TaskID) string {
	if id.Slot == 0 {
		return jobBegin + string(id.Job)
	}
	return keep.PinName(id)
}

func taskOf(pin string) (taskstate.TaskID, bool) {
	if job, ok := strings.CutPrefix(pin, jobBegin); ok {
		return inputsOf(taskstate.JobID(job)), job != ""
	}
	return keep.TaskOfPin(pin)
}
