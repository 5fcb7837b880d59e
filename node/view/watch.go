package view

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

// Times of a watch.
const (
	watchBookmark = 15 * time.Second // something is said at least so often
	watchLeast    = 5 * time.Minute  // a stream ends after so long, to twice that: its reader resumes, wherever it is then served best
)

// watchBehind is how far behind a reader may be before it gets only the newest event of each job,
// task and peer.
const watchBehind = 1024

// Watch implements api.PeerBackend.
func (v *View) Watch(ctx context.Context, since string, send func(api.Event) error) error {
	if _, ours, err := v.hub.parseToken(since); since != "" && err == nil && !ours {
		select {
		case <-v.cfg.Up: // before, much of how things stand is not known here yet
		case <-ctx.Done():
			return nil
		}
	}
	w := &watcher{hub: v.hub, list: v.listEvents, now: v.now, send: send}
	return w.run(ctx, since, watchLeast+rand.N(watchLeast))
}

type watcher struct {
	hub  *hub
	list func(func(event) error) error // how things stand now
	now  func() int64
	send func(api.Event) error
	seen uint64 // told up to here
}

// run serves a reader until ctx ends, it goes away, or life is over.
func (w *watcher) run(ctx context.Context, since string, life time.Duration) error {
	if err := w.begin(since); err != nil {
		return err
	}
	end := time.NewTimer(life)
	defer end.Stop()
	idle := time.NewTimer(watchBookmark)
	defer idle.Stop()
	for {
		more, err := w.catchUp()
		if err != nil {
			return err
		}
		idle.Reset(watchBookmark)
		select {
		case <-more:
		case <-idle.C:
			err = w.say(event{kind: kindBookmark})
		case <-end.C:
			return w.say(event{kind: kindEnd, note: "this stream ends here; go on with its token"})
		case <-ctx.Done():
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (w *watcher) say(e event) error {
	e.seq, e.at = w.seen, w.now()
	return w.send(w.hub.public(e))
}

// begin goes on after a token, or begins where the hub stands.
func (w *watcher) begin(since string) error {
	w.seen = w.hub.last()
	if since == "" {
		return w.say(event{kind: kindSnapshot, note: "events from here on"})
	}
	at, ours, err := w.hub.parseToken(since)
	switch {
	case err != nil:
		return err
	case ours:
		w.seen = at
		return nil
	}
	return w.snapshot("foreign token: it is of another peer, or of an earlier start of this one; this is how things stand now")
}

// catchUp tells all there is, and returns a channel that is closed when there is more. A reader
// that is far behind is told the newest of each thing only; one that fell out of the ring, how
// things stand.
func (w *watcher) catchUp() (more <-chan struct{}, err error) {
	for {
		evs, lost, more := w.hub.after(w.seen)
		if lost {
			if err := w.snapshot("too old: events after that token are not kept any more; this is how things stand now"); err != nil {
				return nil, err
			}
			continue
		}
		if len(evs) == 0 {
			return more, nil
		}
		if len(evs) > watchBehind {
			evs = newest(evs)
		}
		for _, e := range evs {
			if e.kind == kindSnapshot { // the ledger was replaced by another copy of it: what was in between nobody here has seen
				w.seen = e.seq
				if err := w.snapshot("this peer caught up by a snapshot; this is how things stand now"); err != nil {
					return nil, err
				}
				break
			}
			if err := w.send(w.hub.public(e)); err != nil {
				return nil, err
			}
			w.seen = e.seq
		}
	}
}

// snapshot tells how things stand. Its lines carry no token until all have been sent: a reader that
// is cut off in between gets it anew. What happens meanwhile is told again after it, only the
// newest of each thing: nothing goes back.
func (w *watcher) snapshot(why string) error { return w.snapshotOf(why, 3) }

func (w *watcher) snapshotOf(why string, tries int) error {
	base := w.hub.last()
	bare := func(e event, listed bool) error {
		e.at = cmp.Or(e.at, w.now())
		p := w.hub.public(e)
		p.Seq, p.Token, p.Snapshot = base, "", listed
		return w.send(p)
	}
	if err := bare(event{kind: kindSnapshot, note: why}, false); err != nil {
		return err
	}
	if err := w.list(func(e event) error { return bare(e, true) }); err != nil {
		return err
	}
	w.seen = base
	meanwhile, lost, _ := w.hub.after(base)
	if !lost {
		for _, e := range newest(meanwhile) {
			if e.kind == kindSnapshot {
				lost = true
				break
			}
			if err := bare(e, true); err != nil {
				return err
			}
			w.seen = e.seq
		}
	}
	switch {
	case lost && tries > 1:
		return w.snapshotOf(why, tries-1)
	case lost:
		return api.Errorf(api.TimedOut, "too slow: more happens here than this reader takes in; watch again")
	}
	return w.say(event{kind: kindSynced})
}

type thing struct {
	kind string
	job  taskstate.JobID
	task taskstate.TaskID
	peer taskstate.PeerID
}

func (e *event) about() thing {
	switch e.kind {
	case kindJob:
		return thing{kind: kindJob, job: e.job}
	case kindTask:
		return thing{kind: kindTask, task: e.task}
	case kindPeer:
		return thing{kind: kindPeer, peer: e.peer}
	}
	return thing{kind: e.kind}
}

// newest keeps the last event about each thing, in order: a reader that is behind need not see what
// is over.
func newest(evs []event) []event {
	last := make(map[thing]uint64, len(evs))
	for i := range evs {
		last[evs[i].about()] = evs[i].seq
	}
	kept := make([]event, 0, len(last))
	for i := range evs {
		if last[evs[i].about()] == evs[i].seq {
			kept = append(kept, evs[i])
		}
	}
	return kept
}

// listEvents tells how everything stands: coordinator, peers, jobs, and the tasks of those that are
// not over.
func (v *View) listEvents(tell func(event) error) error {
	if who, epoch, ok := v.cfg.Ledger.Coordinator(); ok {
		if err := tell(event{at: v.electedAt(who), kind: kindCoordinator, peer: who, state: "elected", note: "epoch " + epoch.String()}); err != nil {
			return err
		}
	}
	view := v.cfg.Members()
	for _, m := range v.Who.Admitted() {
		state, since := "admitted", m.Entry.At
		if got, ok := view.Get(m.Entry.Peer); ok {
			state = got.Verdict.String()
			if !got.Since.IsZero() {
				since = got.Since.UnixMilli()
			}
		}
		if err := tell(event{at: since, kind: kindPeer, peer: m.Entry.Peer, state: state, note: v.Who.Name(m.Entry.Peer)}); err != nil {
			return err
		}
	}
	jobs, err := v.Jobs(context.Background())
	if err != nil {
		return err
	}
	for i := range jobs.Jobs {
		if err := v.listJob(&jobs.Jobs[i], tell); err != nil {
			return err
		}
	}
	return nil
}

// listJob tells how a job stands, and, if it goes on, its tasks that have begun.
func (v *View) listJob(row *api.Job, tell func(event) error) error {
	id := taskstate.JobID(row.ID)
	if err := tell(event{at: row.Submitted.UnixMilli(), kind: kindJob, job: id, state: row.State, note: row.Name}); err != nil || row.Over() {
		return err
	}
	tasks, err := v.taskRows(id, v.begunSlots(id))
	if err != nil {
		return nil //nolint:nilerr // held, or forgotten meanwhile
	}
	for _, t := range tasks {
		if t.State == taskstate.Pending.String() {
			continue
		}
		e := event{at: t.At.UnixMilli(), kind: kindTask, task: taskstate.Task(id, t.Slot, t.Attempt), peer: t.Peer, state: t.State, exit: taskstate.NoExit, note: t.Message}
		if t.ExitCode != nil {
			e.exit = *t.ExitCode
		}
		if err := tell(e); err != nil {
			return err
		}
	}
	return nil
}
