package coordinator

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// rig drives a core against a ledger.State by hand: proposals are decided at once, or when the test
// says so, and everything the core wants is written down.
type rig struct {
	t       testing.TB
	core    *Core
	state   *ledger.State
	epoch   taskstate.Epoch
	now     time.Time
	hold    bool
	pending [][]ledger.Command
	conns   map[string]ConnID // newest stream of each peer
	names   map[ConnID]string
	next    ConnID
	out     strings.Builder
	inc     map[string]string
	over    string // StartOver was asked for
	seen    func(Effect)
}

func newRig(t testing.TB, cfg CoreConfig) *rig {
	r := &rig{
		t: t, state: ledger.NewState(), epoch: taskstate.At(1, 1), now: time.UnixMilli(1_000_000),
		conns: map[string]ConnID{}, names: map[ConnID]string{}, inc: map[string]string{},
	}
	founder := admission.Entry{Cluster: "c", Peer: "founder", Roles: []admission.Role{admission.Voter, admission.Submit}, By: "founder"}
	r.state.Apply(ledger.Entry{Index: 1, Epoch: r.epoch, Commands: []ledger.Command{{Found: &ledger.Found{Cluster: "c", Generation: 1, Founder: founder}}, {Lead: &ledger.Lead{}}}})
	r.build(cfg)
	return r
}

func (r *rig) build(cfg CoreConfig) {
	cfg.Seed, cfg.Self = 1, "founder"
	cfg.Read = func(f func(*ledger.State)) { f(r.state) }
	if cfg.StartWithin == 0 {
		cfg.StartWithin = 24 * time.Hour // the workers of most tests say only what matters there
	}
	r.core = NewCore(cfg, r.epoch, r.state, r.now)
	r.pending, r.over = nil, ""
	clear(r.names)
	r.step(TimePassed{})
}

// apply decides commands and tells the core.
func (r *rig) apply(cmds ...ledger.Command) []ledger.Result {
	e := ledger.Entry{Index: r.state.Index() + 1, Epoch: r.epoch, Stamp: r.now.UnixMilli(), By: "founder", Commands: cmds}
	res := r.state.Apply(e)
	r.step(LedgerApplied{Entry: e, Results: res})
	return res
}

func (r *rig) step(evs ...Event) {
	for _, ef := range r.core.Step(evs, r.now) {
		r.note(ef)
		if r.seen != nil {
			r.seen(ef)
		}
		switch ef := ef.(type) {
		case ProposeCommands:
			r.pending = append(r.pending, ef.Commands)
		case StartOver:
			r.over = ef.Why
		}
	}
	for !r.hold && len(r.pending) > 0 {
		r.decide()
	}
}

// decide carries out the oldest proposal.
func (r *rig) decide() {
	cmds := r.pending[0]
	r.pending = r.pending[1:]
	r.apply(cmds...)
	r.step(ProposalDone{})
}

// advance lets time pass, stopping wherever the core asked to be woken.
func (r *rig) advance(d time.Duration) {
	end := r.now.Add(d)
	for i := 0; ; i++ {
		at := r.core.Wake()
		if at.IsZero() || at.After(end) {
			break
		}
		if i > 10_000 {
			r.t.Fatalf("the core wants to be woken at %v for ever", at)
		}
		r.now = later(r.now, at)
		r.step(TimePassed{})
	}
	r.now = end
	r.step(TimePassed{})
}

func (r *rig) note(ef Effect) {
	switch ef := ef.(type) {
	case SendDown:
		fmt.Fprintf(&r.out, "%s <- %s\n", r.names[ef.Conn], downString(ef.Frame))
	case EndSession:
		fmt.Fprintf(&r.out, "%s closed: %s\n", r.names[ef.Conn], ef.Why)
	case ProposeCommands:
		var parts []string
		for _, c := range ef.Commands {
			parts = append(parts, commandString(c))
		}
		fmt.Fprintf(&r.out, "propose %s\n", strings.Join(parts, "; "))
	case ProbePeer:
		fmt.Fprintf(&r.out, "probe %s\n", ef.Peer)
	case StartOver:
		fmt.Fprintf(&r.out, "START OVER: %s\n", ef.Why)
	}
}

// take returns what was written down since the last time.
func (r *rig) take() string {
	s := r.out.String()
	r.out.Reset()
	return s
}

// hello opens a stream for a peer and sends its reports.
func (r *rig) hello(peer string, h session.Hello, reports ...taskstate.Status) {
	r.next++
	r.conns[peer], r.names[r.next] = r.next, peer
	r.step(SessionOpened{Conn: r.next, Peer: peer, Hello: h})
	r.step(SessionFrame{Conn: r.conns[peer], Frame: session.Up{Report: &session.Report{Tasks: reports, Done: true}}})
}

func slotsString(runs []ledger.Slots) string {
	var out []string
	for _, s := range runs {
		x := strconv.Itoa(s.First)
		if s.N > 1 {
			x += "-" + strconv.Itoa(s.First+s.N-1)
		}
		out = append(out, fmt.Sprintf("%s.%d", x, s.Attempt))
	}
	return "[" + strings.Join(out, " ") + "]"
}

func commandString(c ledger.Command) string {
	switch {
	case c.Assign != nil:
		return fmt.Sprintf("assign %s%s to %s", c.Assign.Job, slotsString(c.Assign.Slots), c.Assign.Peer)
	case c.Settle != nil:
		var out []string
		for _, s := range c.Settle.Statuses {
			out = append(out, fmt.Sprintf("%s=%s", s.Task, s.State))
		}
		return fmt.Sprintf("settle of %s %s", c.Settle.Peer, strings.Join(out, " "))
	case c.Supersede != nil:
		s := fmt.Sprintf("supersede %s (%s)", c.Supersede.Task, c.Supersede.Reason)
		if c.Supersede.Again {
			return s + " again"
		}
		return s + " as " + c.Supersede.Status.State.String()
	case c.Renew != nil:
		return fmt.Sprintf("renew %s%s v%d (%s)", c.Renew.Job, slotsString(c.Renew.Slots), c.Renew.Version, c.Renew.Reason)
	case c.Retire != nil:
		return fmt.Sprintf("retire %s%s (%s)", c.Retire.Job, slotsString(c.Retire.Slots), c.Retire.Reason)
	case c.Grow != nil:
		return fmt.Sprintf("grow %s by %d, for %v, v%d", c.Grow.Job, c.Grow.N, c.Grow.Peers, c.Grow.Version)
	case c.Rollout != nil:
		return fmt.Sprintf("rollout %s v%d %s %q", c.Rollout.Job, c.Rollout.Version, c.Rollout.State, c.Rollout.Message)
	case c.Update != nil:
		return fmt.Sprintf("update %s to %+v", c.Update.Job.ID, c.Update.Job)
	case c.Register != nil:
		return fmt.Sprintf("register %s/%s", c.Register.Peer, c.Register.Incarnation)
	}
	v := reflect.ValueOf(c)
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Pointer && !f.IsNil() {
			return fmt.Sprintf("%s %+v", strings.ToLower(v.Type().Field(i).Name), f.Elem())
		}
	}
	return "nothing"
}

func downString(d session.Down) string {
	switch {
	case d.Welcome != nil:
		return fmt.Sprintf("welcome %s beat %d grace %d", d.Welcome.Session, d.Welcome.Beat, d.Welcome.Grace)
	case d.Refuse != nil:
		s := "refuse " + d.Refuse.Code
		if d.Refuse.RetryAfter > 0 {
			s += fmt.Sprintf(" retry after %d", d.Refuse.RetryAfter)
		}
		return s
	case d.Beat != nil:
		if b := d.Beat; b.Beat != 0 || b.Grace != 0 {
			return fmt.Sprintf("beat %d held %t, beat %d grace %d", b.N, b.Held, b.Beat, b.Grace)
		}
		return fmt.Sprintf("beat %d held %t", d.Beat.N, d.Beat.Held)
	case d.Ack != nil:
		return fmt.Sprintf("ack %d", d.Ack.Batch)
	case d.Released != nil:
		return "released"
	}
	a := d.Assignments
	var out []string
	if a.Complete {
		out = append(out, fmt.Sprintf("complete %d", a.ResultsIn))
	} else {
		out = append(out, fmt.Sprintf("change %d to %d", a.AppliesTo, a.ResultsIn))
	}
	if a.More {
		out = append(out, "more")
	}
	for _, j := range a.Jobs {
		out = append(out, fmt.Sprintf("job %s", j.ID))
	}
	for _, g := range a.Grants {
		s := fmt.Sprintf("grant %s%s @%d", g.Job, slotsString(g.Slots), g.Index)
		if len(g.Items) > 0 {
			s += fmt.Sprintf(" %v", g.Items)
		}
		out = append(out, s)
	}
	for _, s := range a.Stop {
		out = append(out, fmt.Sprintf("stop %s (%s)", s.Task, s.Reason))
	}
	for _, t := range a.Recall {
		out = append(out, fmt.Sprintf("recall %s", t))
	}
	return strings.Join(out, ", ")
}

// parseStatus reads JOB.SLOT.ATTEMPT=STATE or …=STATE/REASON.
func (r *rig) parseStatus(s string) taskstate.Status {
	id, what, _ := strings.Cut(s, "=")
	t, err := taskstate.ParseTaskID(id)
	if err != nil {
		r.t.Fatal(err)
	}
	name, reason, _ := strings.Cut(what, "/")
	st := taskstate.Status{Task: t, Seq: 1, Exit: taskstate.NoExit, Reason: taskstate.Reason(reason), At: r.now.UnixMilli()}
	if err := st.State.UnmarshalText([]byte(name)); err != nil {
		r.t.Fatal(err)
	}
	if st.State == taskstate.Complete {
		st.Exit = 0
	}
	return st
}

// open lists, sorted, which tasks the core believes open, and where.
func (c *Core) openTasks() []string {
	var out []string
	for _, p := range c.peers.list() {
		for _, h := range p.holds {
			for n, r := range h.slots {
				out = append(out, fmt.Sprintf("%s on %s@%d", taskstate.Task(h.job.id, n, int(r.attempt)), p.id, r.index))
			}
		}
	}
	slices.Sort(out)
	return out
}

// pendingSlots lists, sorted, what the core believes waits.
func (c *Core) pendingSlots() []string {
	var out []string
	for _, j := range c.jobs.all {
		lines := [][]ledger.Slots{}
		for _, l := range j.groups {
			lines = append(lines, l.again.runs, l.fresh.runs)
		}
		for _, s := range j.later {
			lines = append(lines, []ledger.Slots{s.Slots})
		}
		for _, q := range lines {
			for _, run := range q {
				for n := range run.All() {
					out = append(out, taskstate.Task(j.id, n, run.Attempt).String())
				}
			}
		}
		if j.cancelled {
			continue // what is under way will be refused
		}
		for _, run := range j.inflight {
			for n := range run.All() {
				if !j.early[n] { // it has its end: this assignment will be refused
					out = append(out, taskstate.Task(j.id, n, run.Attempt).String())
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

// check compares the core with one built anew from the ledger: what it followed step by step must
// be what the ledger holds.
func (r *rig) check() error {
	fresh := NewCore(*r.core.cfg, r.epoch, r.state, r.now)
	if a, b := r.core.openTasks(), fresh.openTasks(); !slices.Equal(a, b) {
		return fmt.Errorf("open tasks: core %v, ledger %v", a, b)
	}
	if a, b := r.core.lastingJobs(), fresh.lastingJobs(); !slices.Equal(a, b) {
		for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
			a, b = a[1:], b[1:]
		}
		return fmt.Errorf("lasting jobs:\ncore   %s\nledger %s", strings.Join(a, "\n       "), strings.Join(b, "\n       "))
	}
	if a, b := r.core.pendingSlots(), fresh.pendingSlots(); !slices.Equal(a, b) {
		return fmt.Errorf("pending slots: core %v, ledger %v", a, b)
	}
	for _, p := range r.core.peers.list() {
		live, saves, res := 0, 0, taskstate.Resources{}
		for _, h := range p.holds {
			n := 0
			for _, rc := range h.slots {
				switch {
				case rc.is(ended):
				case rc.is(saving):
					saves++
				default:
					n++
				}
			}
			for _, run := range h.job.inflight {
				if run.peer == p.id {
					n += run.N
				}
			}
			if n != h.live {
				return fmt.Errorf("peer %s job %s: %d live, counted %d", p.id, h.job.id, n, h.live)
			}
			live += n
			for _, rc := range h.slots {
				if !rc.is(ended | saving) {
					res = res.Add(h.job.body(int(rc.version)).Resources)
				}
			}
			for _, run := range h.job.inflight {
				if run.peer == p.id {
					res = res.Add(run.body.Resources.Times(int64(run.N)))
				}
			}
		}
		var waits load
		for _, h := range p.holds {
			of := load{}
			for _, rc := range h.slots {
				if rc.is(preparing) != (rc.state == taskstate.Preparing && !rc.is(ended|saving)) {
					return fmt.Errorf("peer %s: %+v is marked %v", p.id, rc, rc.is(preparing))
				}
				if rc.is(preparing) {
					of = of.add(1, h.job.body(int(rc.version)).Resources)
				}
			}
			if of != h.preparing {
				return fmt.Errorf("peer %s: %+v of job %s wait for inputs, counted %+v", p.id, of, h.job.id, h.preparing)
			}
			waits = load{waits.tasks + of.tasks, waits.resources.Add(of.resources)}
		}
		if waits != p.preparing {
			return fmt.Errorf("peer %s: %+v wait for inputs, counted %+v", p.id, waits, p.preparing)
		}
		recalls := 0
		for _, h := range p.holds {
			for _, rc := range h.slots {
				if rc.is(recalled) {
					recalls++
				}
			}
		}
		if recalls != p.recalling {
			return fmt.Errorf("peer %s: %d recalls, counted %d", p.id, recalls, p.recalling)
		}
		if live+saves != p.outstanding || saves != p.saving || res != p.promised {
			return fmt.Errorf("peer %s: %d tasks %+v, counted %d %+v, %d of them saving", p.id, live+saves, res, p.outstanding, p.promised, p.saving)
		}
	}
	return nil
}
