package sim

import (
	"errors"
	"time"

	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/membership/digest"
	"github.com/coveyproject/covey/taskstate"
)

// workerPorts is what the worker's shell does for its core.
type workerPorts struct {
	l *life
	n int // of the life's workers
}

func (p workerPorts) Send(u session.Up) { p.l.client.send(u) }

func (p workerPorts) End(why string, again bool) {
	p.l.client.endSoon(sessionEnd{why: why, again: again})
}

func (p workerPorts) Save(t *transaction) { p.l.journal.save(p.l, t) }

func (p workerPorts) Start(launch taskstate.Launch) { p.l.start(launch) }

func (p workerPorts) Halt(s session.Stop) { p.l.halt(s) }

func (p workerPorts) Stage(job *taskstate.Job) { p.l.stage(job) }

func (p workerPorts) Retired(n uint64) { p.l.digest.Retire(p.l.p.id, string(p.l.p.inc), n) }

func (p workerPorts) Wake(at time.Time) {
	l := p.l
	l.after(max(0, at.Sub(l.p.wall())), func() {
		if p.n == l.workers {
			l.worker.Due(l.p.wall())
			l.renew()
		}
	})
}

func (p workerPorts) Publish(envelopes [][]byte) {
	l := p.l
	l.after(l.w.ms(0, 3), func() {
		for _, e := range envelopes {
			l.publish(e)
		}
		if p.n == l.workers {
			l.worker.Published(l.p.wall())
		}
	})
}

// journalWriter is the writer between the core and the disk.
type journalWriter struct {
	l    *life
	txn  *transaction
	wait time.Duration
	sick bool
}

const (
	retryFirst = 200 * time.Millisecond
	retryMost  = 5 * time.Second
)

var errDisk = errors.New("no space left on device")

func (j *journalWriter) save(l *life, t *transaction) {
	if j.txn != nil {
		l.w.fail("bug", "%s writes two transactions at once", l.p.id)
	}
	j.l, j.txn, j.wait = l, t, retryFirst
	l.after(j.latency(), j.try)
}

func (j *journalWriter) latency() time.Duration {
	w := j.l.w
	if j.l.p.slowDisk > 0 {
		return w.ms(50, 2500)
	}
	return w.ms(0, w.temper.disk)
}

func (j *journalWriter) try() {
	l := j.l
	if l.p.badDisk > 0 {
		if !j.sick {
			j.sick = true
			l.worker.Sick(errDisk, l.p.wall())
		}
		l.after(j.wait, j.try)
		j.wait = min(2*j.wait, retryMost)
		return
	}
	j.write()
	if j.sick {
		j.sick = false
		l.worker.Sick(nil, l.p.wall())
	}
	j.txn = nil
	l.worker.Saved(l.p.wall())
	l.renew()
}

func (j *journalWriter) write() {
	l := j.l
	if l.w.cfg.Break == BreakNoSync {
		l.p.older = l.p.disk.Clone()
	}
	l.w.check.epochs.journaled(l, j.txn)
	l.w.check.files.toldOnDisk(l, j.txn)
	if err := j.txn.Write(l.p.disk, l.seal); err != nil {
		l.w.fail("bug", "%s cannot write its journal: %v", l.p.id, err)
	}
}

// crash leaves the transaction under way on the disk, or not.
func (j *journalWriter) crash() {
	if j.l == nil {
		return
	}
	w := j.l.w
	if j.txn != nil && j.l.p.badDisk == 0 && w.chance(0.5) {
		j.write()
	}
	if w.cfg.Break == BreakNoSync {
		j.l.p.disk = j.l.p.older
	}
}

func (l *life) seal(number uint64, statuses []taskstate.Status) (body, envelope []byte, err error) {
	body, err = taskstate.EncodeBatch(taskstate.Batch{Author: l.p.id, Incarnation: l.p.inc, Number: number, Statuses: statuses})
	if err != nil {
		return nil, nil, err
	}
	e, err := digest.Seal(l.p.id, string(l.p.inc), number, body, func([]byte) ([]byte, error) { return []byte("signed"), nil })
	if err != nil {
		return nil, nil, err
	}
	envelope, err = e.Encode()
	return body, envelope, err
}
