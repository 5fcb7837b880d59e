package sim

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/ledger/act"
	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/trust/policy"
)

// A signature is a checksum here: of whose key it is made with, and of what is signed. Whoever lies
// has no key but its own, and what others have signed.

func sealed(by string) func([]byte) ([]byte, error) {
	return func(data []byte) ([]byte, error) {
		sum := sha256.Sum256(append([]byte(by+" signs "), data...))
		return sum[:], nil
	}
}

func unsealed(by string, data, sig []byte) error {
	if want, _ := sealed(by)(data); !bytes.Equal(want, sig) {
		return errors.New("the signature is not " + by + "'s")
	}
	return nil
}

// liar is a key that no machine lets in.
const liar = "mallory"

// orders is what people have signed, and what came of it.
type orders struct {
	w      *world
	jobs   map[taskstate.JobID][]taskstate.Job // as they were signed
	signed []taskstate.JobID                   // of jobs, in order
	taken  map[string]bool                     // orders and acts that counted
	said   []ledger.Command                    // some that did
	memo   taskstate.OrderMemo
	lies   int
	off    bool // for tests of other checks: nobody signs
}

func (o *orders) init(w *world) {
	o.w, o.jobs, o.taken = w, map[taskstate.JobID][]taskstate.Job{}, map[string]bool{}
}

// now is the time as the ledger tells it.
func (o *orders) now() int64 { return max(birth.UnixMilli(), o.w.quorum.truth.Stamp()) }

// sign has somebody sign what they ask for.
func (o *orders) sign(by *peer, cmd ledger.Command) ledger.Command {
	switch {
	case cmd.Submit != nil:
		s := *cmd.Submit
		o.order(&s.Job, by.id, o.now(), nil)
		cmd.Submit = &s
	case cmd.Update != nil:
		u := *cmd.Update
		at, follows := o.now(), []byte(nil)
		if rec, ok := o.w.quorum.truth.Job(u.Job.ID); ok && rec.Job().Order != nil {
			at, follows = max(at, rec.Job().Order.At+1), rec.Job().Order.Digest()
		}
		o.order(&u.Job, by.id, at, follows)
		cmd.Update = &u
	case cmd.Lead == nil:
		cmd.Act = o.act(cmd, by.id, by.id)
	}
	return cmd
}

// order signs a job, and remembers it if it is a person who does.
func (o *orders) order(j *taskstate.Job, by string, at int64, follows []byte) {
	if err := taskstate.SignOrder(j, clusterID, by, at, follows, sealed(by)); err != nil {
		o.w.fail("bug", "%s cannot sign %s: %v", by, j.ID, err)
	}
	if by == liar {
		return
	}
	if len(o.jobs[j.ID]) == 0 {
		o.signed = append(o.signed, j.ID)
	}
	o.jobs[j.ID] = append(o.jobs[j.ID], *j)
}

// act signs a command as somebody's, with somebody's key.
func (o *orders) act(cmd ledger.Command, by, key string) *act.Act {
	now := o.now()
	a, err := act.Act{By: by, At: now, Until: now + act.Lasts, N: o.w.rng.Uint64()}.Signed(clusterID, cmd.Asked(), sealed(key))
	if err != nil {
		o.w.fail("bug", "%s cannot sign: %v", key, err)
	}
	return &a
}

// decided is I19 in the ledger: what counts was signed by somebody, and counts once.
func (o *orders) decided(cmd *ledger.Command, r *ledger.Result) {
	if o.off || r.Refused != ledger.CodeNone || r.Existed || r.Skipped {
		return
	}
	var key string
	switch {
	case cmd.Submit != nil && cmd.Submit.Job.Origin != nil: // the coordinator starts it; its order is the schedule's
		o.meant(&cmd.Submit.Job, "the ledger takes")
		return
	case cmd.Submit != nil:
		o.meant(&cmd.Submit.Job, "the ledger takes")
		key = string(cmd.Submit.Job.Order.Digest())
	case cmd.Update != nil:
		o.meant(&cmd.Update.Job, "the ledger takes")
		key = string(cmd.Update.Job.Order.Digest())
	case cmd.Act != nil:
		if cmd.Act.By == liar || cmd.Act.Verify(clusterID, cmd.Asked(), unsealed) != nil {
			o.w.fail("I19", "what nobody asked for is decided: %s", commands([]ledger.Command{*cmd}, []ledger.Result{*r}))
		}
		key = string(cmd.Act.Sig)
	default:
		return
	}
	if o.taken[key] {
		o.w.fail("I19", "what was signed once counts twice: %s", commands([]ledger.Command{*cmd}, []ledger.Result{*r}))
	}
	o.taken[key] = true
	if len(o.said) < 100 || o.w.chance(0.1) {
		o.said = append(o.said, *cmd)
	}
}

// meant is I19 for a job: somebody has signed just that.
func (o *orders) meant(j *taskstate.Job, who string) *taskstate.Job {
	id := j.ID
	run := j.Origin != nil
	if run {
		id = j.Origin.Job
	}
	if j.Order != nil {
		for k := range o.jobs[id] {
			s := &o.jobs[id][k]
			if bytes.Equal(s.Order.Digest(), j.Order.Digest()) && bytes.Equal(o.plain(s, s), o.plain(j, s)) {
				return s
			}
		}
	}
	o.w.fail("I19", "%s %s, which nobody has signed", who, j.ID)
	return nil
}

// plain is what was signed of a job, encoded; of a run what its schedule has and it has not is
// taken from there.
func (o *orders) plain(j, signed *taskstate.Job) []byte {
	p := *j
	if j.Origin != nil {
		p.ID, p.Schedule, p.After = signed.ID, signed.Schedule, signed.After
	}
	p.Version, p.Origin, p.Order, p.Each = 0, nil, nil, nil // whether the items are right is seen task by task
	b, err := wire.Marshal(p)
	if err != nil {
		o.w.fail("bug", "job %s does not encode: %v", j.ID, err)
	}
	return b
}

// started is I19: a process starts on the order of somebody whom the machine's owner lets in, and
// under what the policy names.
func (o *orders) started(l *life, r *proc) {
	if o.off {
		return
	}
	t := &r.launch
	s := o.meant(t.Job, l.p.id+" starts")
	if s == nil {
		return
	}
	held, why := policy.Decide(l.p.policy, o.claim(l.p, t.Job), policy.Load{})
	switch {
	case why.No():
		o.w.fail("I19", "%s starts %s, and its owner lets %s run nothing: %s", l.p.id, t.Task, t.Job.Order.By, why.Text)
	case t.Confinement == nil || !reflect.DeepEqual(*t.Confinement, held):
		o.w.fail("I19", "%s starts %s under %+v, and its policy says %+v", l.p.id, t.Task, t.Confinement, held)
	case !s.Type.Lasts() && t.Task.Slot > s.Count || t.Item != s.Item(t.Task.Slot):
		o.w.fail("I19", "%s starts %s with %q: its order has %d slots, and there %q", l.p.id, t.Task, t.Item, s.Count, s.Item(t.Task.Slot))
	}
}

func (o *orders) claim(p *peer, j *taskstate.Job) policy.Claim {
	c := policy.ClaimOf(j)
	c.On = p.id
	return c
}

// guard is what stands before the runner: it looks at the order of a task and at the machine's
// policy, and refuses, or says what the task runs under.
func (l *life) guard(t *taskstate.Launch) bool {
	o := &l.w.orders
	if l.w.cfg.Break == BreakTrusting {
		held, _ := policy.Decide(l.p.policy, policy.Claim{On: l.p.id, By: l.p.id, Signed: true, Run: &t.Job.Run}, policy.Load{})
		t.Confinement = &held
		return true
	}
	err := o.memo.Check(t, clusterID, l.p.wall().UnixMilli(), unsealed)
	if err == nil {
		held, why := policy.Decide(l.p.policy, o.claim(l.p, t.Job), policy.Load{})
		if !why.No() {
			if l.w.cfg.Break != BreakLoose {
				t.Confinement = &held
			}
			return true
		}
		err = errors.New(why.Text)
	}
	l.w.stats.Refused++
	if l.w.tracing() {
		l.w.tracef("%s refuses %s: %v", l.p.id, t.Task, err)
	}
	rep := taskstate.RunReport{Task: t.Task, State: taskstate.Rejected, Reason: taskstate.ReasonPolicy, Exit: taskstate.NoExit, Message: err.Error()}
	l.after(0, func() {
		rep.At = l.p.wall().UnixMilli()
		l.ran(rep)
	})
	return false
}

// drawPolicy is what the machine's owner lets run there.
func (p *peer) drawPolicy(all []*peer) {
	r := policy.Rule{Run: policy.Run{Any: true}, Isolate: pick(p.w, taskstate.IsolateNone, taskstate.IsolateFS)}
	for _, o := range all {
		r.From = append(r.From, policy.Key+o.id)
	}
	p.policy = policy.Policy{Rules: []policy.Rule{r}}.Here([]string{taskstate.IsolateFS, taskstate.RequireUser})
}

// The ways to lie about a job.
const (
	lieUnsigned  = iota
	lieNamed     // as if somebody else had signed it
	lieChanged   // what somebody signed, and something else in it
	lieOwn       // signed with a key that nobody lets in
	lieElsewhere // signed by somebody, for another cluster
	lieExpired   // signed by somebody, long ago
	lies
)

// lie makes a job that nobody wants, from one that somebody wanted.
func (o *orders) lie(kind int) (j taskstate.Job, ok bool) {
	if len(o.signed) == 0 {
		return j, false
	}
	from := o.jobs[o.signed[o.w.rng.IntN(len(o.signed))]]
	j = from[o.w.rng.IntN(len(from))]
	if j.Schedule != nil || len(j.Inputs) > 0 || j.Outputs != nil {
		return j, false
	}
	o.lies++
	order := j.Order
	j.ID, j.Name = taskstate.JobID(fmt.Sprintf("lie%d", o.lies)), ""
	j.Type, j.Count, j.Each, j.After, j.Update, j.Restart = taskstate.BatchJob, 1, nil, nil, nil, nil
	cluster, by, key, at := clusterID, liar, liar, o.now()
	switch kind {
	case lieUnsigned:
		j.Order = nil
		return j, true
	case lieChanged:
		j.Order = order
		return j, true
	case lieNamed:
		by = order.By
	case lieElsewhere:
		cluster, by, key = "another", order.By, order.By
	case lieExpired:
		by, key, at = order.By, order.By, at-(2*taskstate.BatchOrder).Milliseconds()
	}
	if err := taskstate.SignOrder(&j, cluster, by, at, nil, sealed(key)); err != nil {
		o.w.fail("bug", "a lie cannot be signed: %v", err)
	}
	return j, true
}

// forge has the coordinator write what nobody asked for, or what somebody asked for, again.
func (w *world) forge() {
	o, l := &w.orders, w.quorum.leader
	if l == nil || l.dead || l.leading == nil {
		return
	}
	var cmd ledger.Command
	switch n := w.rng.IntN(10); {
	case n < 3 && len(o.said) > 0:
		cmd = o.said[w.rng.IntN(len(o.said))]
	case n < 5:
		j, ok := w.quorum.truth.Job(w.load.someID())
		if !ok {
			return
		}
		cmd = ledger.Command{Cancel: &ledger.Cancel{Job: j.Job().ID, Reason: "by nobody"}}
		by := liar
		if w.chance(0.7) {
			by = w.peers[0].id
		}
		cmd.Act = o.act(cmd, by, liar)
	default:
		j, ok := o.lie(w.rng.IntN(lies))
		if !ok {
			return
		}
		cmd = ledger.Command{Submit: &ledger.Submit{Job: j}}
		if old := o.jobs[w.load.someID()]; len(old) > 0 && w.chance(0.3) { // in the place of what is there
			j.ID, j.Type, j.Name = old[0].ID, old[0].Type, old[0].Name
			cmd = ledger.Command{Update: &ledger.Update{Job: j}}
		}
	}
	w.stats.Lies++
	w.quorum.propose(l, []ledger.Command{cmd}, func([]ledger.Result, bool) {})
}

// mislead has the coordinator give peers tasks that nobody asked for, for a while, or keep from
// the ledger what people ask of it.
func (w *world) mislead() {
	l := w.quorum.leader
	if l == nil || l.dead {
		return
	}
	p := l.p
	if w.chance(0.5) {
		p.misleads++
		w.until(w.spell(), func() { p.misleads--; w.sessionsAnew(p) })
		return
	}
	p.withholds++
	w.until(w.spell(), func() { p.withholds-- })
}

// sessionsAnew ends the sessions with a coordinator that misled, which may lead on: a worker that
// begins another is told all that it is to have, and lets go of the rest.
func (w *world) sessionsAnew(p *peer) {
	for _, o := range w.peers {
		if l := o.life; l != nil && l.client.link != nil && l.client.at == p && p.misleads == 0 {
			l.client.over(sessionEnd{why: "its coordinator has lied", again: true})
		}
	}
}

// twist adds to a set of assignments a task that nobody asked for.
func (w *world) twist(a *session.Assignments) *session.Assignments {
	j, ok := w.orders.lie(w.rng.IntN(lies))
	if !ok {
		return a
	}
	w.stats.Lies++
	out := *a
	out.Jobs = append(append([]taskstate.Job(nil), a.Jobs...), j)
	out.Grants = append(append([]session.Grant(nil), a.Grants...), session.Grant{
		Job: j.ID, Index: a.Grants[0].Index, Slots: []ledger.Slots{{First: 1, N: 1, Attempt: 1}},
	})
	return &out
}

// someID is a job that people wanted.
func (d *load) someID() taskstate.JobID {
	if len(d.jobs) == 0 {
		return ""
	}
	return d.jobs[d.w.rng.IntN(len(d.jobs))].job.ID
}

// known is I20: a replica has what jobs run at peers that vote, all of them, and elsewhere only
// what the peer itself asked for.
func (o *orders) known(l *life) {
	l.replica.Read(func(st *ledger.State) {
		for j := range st.Jobs() {
			job := j.Job()
			switch has := job.Withheld == nil; {
			case has && !l.p.voter && job.Order != nil && !job.Party(l.p.id):
				o.w.fail("I20", "%s has no say, and knows what %s of %s runs", l.p.id, job.ID, job.Submitter)
			case !has && (l.p.voter || job.Party(l.p.id)):
				o.w.fail("I20", "%s does not know what %s of %s runs", l.p.id, job.ID, job.Submitter)
			}
		}
	})
}
