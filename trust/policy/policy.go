package policy

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// Policy is what a machine's owner lets run there. The zero value lets nothing run.
type Policy struct {
	Rules []Rule `cbor:"1,keyasint,omitempty"`
	// Unsigned takes a job at its word about who submitted it, where it carries no signature.
	Unsigned bool `cbor:"2,keyasint,omitempty"`
	// Holds is what holds on the machine, as words of taskstate.Confinement: see Here.
	Holds []string `cbor:"3,keyasint,omitempty"`
	// Cut says that this is not all of it: what no rule lets in here may be let in all the same.
	Cut bool `cbor:"4,keyasint,omitempty"`

	User   string `cbor:"-"` // whom tasks run as where their rule does not say: as Rule.As
	Finish bool   `cbor:"-"` // what runs of a key that is no longer let in goes on to its end
}

// Rule lets some keys have something run.
type Rule struct {
	From    []string          `cbor:"1,keyasint"` // Self, Role+…, Key+…
	Run     Run               `cbor:"2,keyasint"`
	As      string            `cbor:"3,keyasint,omitempty"` // as Confinement.As; "": a user of its own where the machine can give one
	Net     string            `cbor:"4,keyasint,omitempty"`
	Isolate string            `cbor:"5,keyasint,omitempty"`
	Limits  Limits            `cbor:"6,keyasint,omitzero"`
	Require []string          `cbor:"7,keyasint,omitempty"`
	Each    []taskstate.Limit `cbor:"8,keyasint,omitempty"` // of each process
	// Env names the variables of a job's environment that Run.Programs may have, besides those
	// that no program takes code from.
	Env     []string `cbor:"9,keyasint,omitempty" dialect:"2"`
	Read    []string `cbor:"-"`
	Without []string `cbor:"-"`
	Line    int      `cbor:"-"` // of the file
}

// What Rule.From can say.
const (
	Self = "self"  // the machine's own key
	Role = "role:" // before a role
	Key  = "key:"  // before a peer's id
)

// Run is what a rule lets run. What does nothing (taskstate.Noop) needs no leave.
type Run struct {
	Any      bool     `cbor:"1,keyasint,omitempty"` // whatever the machine can run
	Programs []string `cbor:"2,keyasint,omitempty"` // processes of these programs, by absolute path
	Process  bool     `cbor:"3,keyasint,omitempty"` // processes of any program
	Shell    bool     `cbor:"4,keyasint,omitempty"` // lines for /bin/sh
	Script   bool     `cbor:"5,keyasint,omitempty"` // scripts that come with the job
}

// Limits hold for all tasks of one key together, but for Time, which each attempt may take. 0 is no
// limit.
type Limits struct {
	MilliCPU int64 `cbor:"1,keyasint,omitempty"`
	Memory   int64 `cbor:"2,keyasint,omitempty"`
	Disk     int64 `cbor:"3,keyasint,omitempty"`
	Tasks    int   `cbor:"4,keyasint,omitempty"`
	Time     int64 `cbor:"5,keyasint,omitempty"` // milliseconds
}

// Claim is what is to run, and who asks.
type Claim struct {
	On        taskstate.PeerID // the machine
	By        taskstate.PeerID // the key that asks
	Signed    bool             // it signed the job; otherwise somebody says so
	Roles     []admission.Role // of By, as far as people gave them
	Run       *taskstate.Run
	Resources taskstate.Resources // of one task
	Isolate   string              // what the job asks for, and the next two
	Net       string
	Limits    map[string]int64
}

// ClaimOf is what a job says of itself: who signed it, or, of one that nobody signed, who is said
// to have submitted it. Whether the signature is right is for others to look at.
func ClaimOf(j *taskstate.Job) Claim {
	return Claim{By: j.OrderedBy(), Signed: j.Order != nil, Run: &j.Run, Resources: j.Resources, Isolate: j.Isolate, Net: j.Net, Limits: j.Limits}
}

// Load is what tasks of the key that asks hold on the machine already.
type Load struct {
	Tasks     int
	Resources taskstate.Resources
}

// Reason is why something may not run; the zero value is that it may.
type Reason struct {
	Rule int    // that decided, from 1; 0: none
	Text string // for people; keys are told by their ids
	Full bool   // it may, when what the key has there is over
}

// No tells whether the answer is no.
func (r Reason) No() bool { return r.Text != "" }

// MyMachines is the policy of a machine whose owner has the cluster too: the machine itself and
// administrators may have anything run.
func MyMachines() Policy {
	return Policy{Rules: []Rule{{From: []string{Self, Role + string(admission.Admin)}, Run: Run{Any: true}}}}
}

// Here is the policy on a machine where so much holds: of the words RequireLandlock, RequireUser,
// RequireCgroup, RequireNet, IsolateFS and IsolateStrong of package taskstate.
func (p Policy) Here(holds []string) Policy {
	p.Holds = slices.Sorted(slices.Values(holds))
	return p
}

// Bounds of a Digest.
const (
	MaxRules = 64  // of a digest and of a policy
	MaxWords = 256 // keys, roles, programs and variables of all rules of a digest
)

// Digest is what others may know of a policy: all that decides whether a job fits.
func (p Policy) Digest() Policy {
	d := Policy{Unsigned: p.Unsigned, Holds: p.Holds, Cut: p.Cut}
	words := 0
	for _, r := range p.Rules {
		words += len(r.From) + len(r.Run.Programs) + len(r.Env)
		if words > MaxWords {
			d.Cut = true
			break
		}
		r.Read, r.Without, r.Line = nil, nil, 0
		d.Rules = append(d.Rules, r)
	}
	return d
}

// Decide says what a task is held to, or why it may not run.
func Decide(p Policy, c Claim, has Load) (taskstate.Confinement, Reason) {
	none := taskstate.Confinement{}
	if !c.Signed && !p.Unsigned {
		return none, Reason{Text: "its job is not signed by its submitter, and this machine takes signed jobs only"}
	}
	at := match(p, c)
	if at < 0 {
		if p.Cut {
			return none, Reason{}
		}
		return none, p.whyNone(c)
	}
	r := &p.Rules[at]
	held := r.confine(c, &p)
	if lacks := lacking(held, p.Holds); lacks != "" {
		return none, Reason{Rule: at + 1, Text: fmt.Sprintf("%s, which does not hold on this machine", r.asks(at, lacks, c, &p))}
	}
	if text := r.uncounted(at, &held, &p); text != "" {
		return none, Reason{Rule: at + 1, Text: text}
	}
	if text := r.Limits.unnamed(c); text != "" {
		return none, Reason{Rule: at + 1, Text: r.called(at) + " " + text}
	}
	if text, full := r.Limits.refuse(c.Resources, has); text != "" {
		return none, Reason{Rule: at + 1, Text: r.called(at) + " " + text, Full: full}
	}
	return held, Reason{Rule: at + 1}
}

// unnamed says that a limit is of what a job does not say it needs: it would count as nothing,
// however much it takes.
func (l *Limits) unnamed(c Claim) string {
	switch {
	case c.Run != nil && c.Run.Noop != nil: // it takes nothing
	case l.Memory > 0 && c.Resources.Memory == 0:
		return "limits memory, and its job does not say how much it needs: add `memory:` to its `resources:`, or --memory SIZE"
	case l.MilliCPU > 0 && c.Resources.MilliCPU == 0:
		return "limits cpus, and its job does not say how many it needs: add `cpus:` to its `resources:`, or --cpus N"
	}
	return ""
}

// uncounted says that processes are limited of a task that runs as root: the system does not count
// those. A machine that can give tasks users of their own runs them as root where the rule says
// `as: self`.
func (r *Rule) uncounted(at int, held *taskstate.Confinement, p *Policy) string {
	processes := func(l taskstate.Limit) bool { return l.Of == taskstate.LimitProcesses }
	if held.As != taskstate.AsSelf || !slices.Contains(p.Holds, taskstate.RequireUser) || !slices.ContainsFunc(held.Limits, processes) {
		return ""
	}
	if who := r.called(at); slices.ContainsFunc(r.Each, processes) {
		return who + " limits processes and has them run as root, whose are not counted: it needs another `as:`"
	}
	return fmt.Sprintf("its job asks for a limit of processes, and %s has it run as root, whose are not counted", r.called(at))
}

func match(p Policy, c Claim) int {
	return slices.IndexFunc(p.Rules, func(r Rule) bool { return r.names(c) && r.lets(c.Run) == "" })
}

// Match is the rule that decides about what is claimed; nil: there is none.
func Match(p Policy, c Claim) *Rule {
	if at := match(p, c); at >= 0 {
		return &p.Rules[at]
	}
	return nil
}

// called names a rule for people.
func (r *Rule) called(at int) string {
	if r.Line > 0 {
		return fmt.Sprintf("rule %d (line %d)", at+1, r.Line)
	}
	return fmt.Sprintf("rule %d", at+1)
}

// asks says who asks for what does not hold: the rule, or else the job.
func (r *Rule) asks(at int, lacks string, c Claim, p *Policy) string {
	job := ""
	switch lacks {
	case c.Isolate:
		job = "isolate: " + lacks
	case taskstate.RequireNet:
		job = "net: none"
	case taskstate.HoldsLimits:
		job = "a limit of its processes"
	}
	c.Isolate, c.Net, c.Limits = "", "", nil
	if job != "" && lacking(r.confine(c, p), p.Holds) != lacks {
		return "its job asks for " + job
	}
	return fmt.Sprintf("%s needs %q", r.called(at), lacks)
}

// names tells whether the rule is about who asks.
func (r *Rule) names(c Claim) bool {
	return slices.ContainsFunc(r.From, func(from string) bool {
		if role, ok := strings.CutPrefix(from, Role); ok {
			return slices.Contains(c.Roles, admission.Role(role))
		}
		if key, ok := strings.CutPrefix(from, Key); ok {
			return key == c.By && key != ""
		}
		return from == Self && c.By == c.On && c.By != ""
	})
}

// lets says why something may not run, "" if it may.
func (r *Rule) lets(run *taskstate.Run) string {
	switch {
	case run == nil:
		return "what it would run is not known"
	case run.Noop != nil, r.Run.Any:
		return ""
	case run.Process == nil:
		return "this machine cannot run it"
	}
	switch p := run.Process; {
	case len(p.Script) > 0:
		return unless(r.Run.Script, "runs no scripts")
	case p.Shell:
		return unless(r.Run.Shell, "runs no shell lines")
	case r.Run.Process:
		return ""
	case len(p.Command) == 0 || !slices.Contains(r.Run.Programs, p.Command[0]):
		return "runs " + r.Run.programs()
	default:
		return r.letsEnv(p.Env)
	}
}

// letsEnv says which variables its programs may not have, "" if they may have all. Programs load
// code by variables of any name (LD_PRELOAD, OPENSSL_CONF, GCONV_PATH), so those are listed that
// are harmless.
func (r *Rule) letsEnv(env map[string]string) string {
	var not []string
	for name := range env {
		if !harmless(name) && !slices.Contains(r.Env, name) {
			not = append(not, name)
		}
	}
	if len(not) == 0 {
		return ""
	}
	slices.Sort(not)
	const shown = 4
	more := ""
	if n := len(not) - shown; n > 0 {
		not, more = not[:shown], fmt.Sprintf(" and %d more", n)
	}
	return "lets its programs have no other variables than COVEY_…, LANG, LC_…, TZ, TERM, TRACEPARENT and those in its `env:`, and the job's `env:` has " + strings.Join(not, ", ") + more
}

// harmless reports whether no program is known to take code from a variable.
func harmless(name string) bool {
	return slices.Contains([]string{"LANG", "TZ", "TERM", "TRACEPARENT"}, name) || strings.HasPrefix(name, "LC_") || strings.HasPrefix(name, "COVEY_")
}

func unless(ok bool, text string) string {
	if ok {
		return ""
	}
	return text
}

func (r *Run) programs() string {
	const shown = 4
	switch n := len(r.Programs); {
	case n == 0:
		return "no programs"
	case n > shown:
		return fmt.Sprintf("only %s and %d more", strings.Join(r.Programs[:shown], ", "), n-shown)
	}
	return "only " + strings.Join(r.Programs, ", ")
}

// whyNone says why no rule lets in what is claimed: the nearest to it is named.
func (p *Policy) whyNone(c Claim) Reason {
	for i := range p.Rules {
		if r := &p.Rules[i]; r.names(c) {
			return Reason{Rule: i + 1, Text: r.called(i) + " " + r.lets(c.Run)}
		}
	}
	return Reason{Text: "no rule lets in jobs of " + c.By + "; its owner can: " + AddKey + c.By}
}

// AddKey is the command that lets in the key behind it. What puts names in place of keys leaves
// that one as it is.
const AddKey = "peer trust add "

// ours tells whether this peer asks, or an admin whom the rule lets in as such, and signed it. An
// admin whom the owner lets in by a key is somebody else.
func (r *Rule) ours(c Claim) bool {
	return c.Signed && (c.By == c.On || slices.Contains(c.Roles, admission.Admin) && slices.Contains(r.From, Role+string(admission.Admin)))
}

// confine is what the rule, and the job, hold a task to.
func (r *Rule) confine(c Claim, p *Policy) taskstate.Confinement {
	held := taskstate.Confinement{
		As: cmp.Or(r.As, p.User), Read: r.Read, Net: r.net(c), Isolate: stronger(r.Isolate, c.Isolate),
		Require: r.Require, Without: r.Without, MaxTime: r.Limits.Time, Limits: tighter(r.Each, c.Limits),
		Ours: r.ours(c),
	}
	if held.As == "" {
		held.As = taskstate.AsSelf
		if slices.Contains(p.Holds, taskstate.RequireUser) {
			held.As = taskstate.AsDynamic
		}
	}
	return held
}

// net is whether a task has a network: not if either says so, nor if strong isolation takes it away
// and who asks for that does not say that it needs one.
func (r *Rule) net(c Claim) string {
	none := func(net, isolate string) bool {
		return net == taskstate.NetNone || net == "" && isolate == taskstate.IsolateStrong
	}
	if none(r.Net, r.Isolate) || c.Net == taskstate.NetNone || r.Net == "" && none(c.Net, c.Isolate) {
		return taskstate.NetNone
	}
	return taskstate.NetAny
}

// isolations are the words of Confinement.Isolate, each stronger than the one before.
func isolations() []string {
	return []string{taskstate.IsolateNone, taskstate.IsolateFS, taskstate.IsolateStrong}
}

// stronger is that of two isolations that holds more back. One that is not known holds back most,
// and is nowhere to be had.
func stronger(a, b string) string {
	rank := func(s string) int {
		if i := slices.Index(isolations(), cmp.Or(s, taskstate.IsolateNone)); i >= 0 {
			return i
		}
		return len(isolations())
	}
	if rank(b) > rank(a) {
		a = b
	}
	return cmp.Or(a, taskstate.IsolateNone)
}

// tighter is the smaller one of what a rule and a job say of each limit, in one order.
func tighter(rule []taskstate.Limit, job map[string]int64) []taskstate.Limit {
	if len(job) == 0 {
		return rule
	}
	least := maps.Clone(job)
	for _, l := range rule {
		if v, ok := least[l.Of]; !ok || l.Max < v {
			least[l.Of] = l.Max
		}
	}
	all := make([]taskstate.Limit, 0, len(least))
	for _, of := range slices.Sorted(maps.Keys(least)) {
		all = append(all, taskstate.Limit{Of: of, Max: least[of]})
	}
	return all
}

// lacking is what of a confinement does not hold where so much holds; "" if all does.
func lacking(c taskstate.Confinement, holds []string) string {
	needs := slices.Clone(c.Require)
	if c.As != taskstate.AsSelf {
		needs = append(needs, taskstate.RequireUser)
	}
	if c.Isolate != taskstate.IsolateNone {
		needs = append(needs, c.Isolate)
	}
	if c.Net != taskstate.NetAny {
		needs = append(needs, taskstate.RequireNet)
	}
	if len(c.Limits) > 0 {
		needs = append(needs, taskstate.HoldsLimits)
	}
	for _, n := range needs {
		if !slices.Contains(holds, n) {
			return n
		}
	}
	return ""
}

// refuse says which limit a task would pass, "" if none, and whether only what its key has there
// stands in the way.
func (l *Limits) refuse(r taskstate.Resources, has Load) (text string, full bool) {
	for _, m := range []struct {
		name           string
		limit, of, has int64
	}{
		{"cpus", l.MilliCPU, r.MilliCPU, has.Resources.MilliCPU},
		{"memory", l.Memory, r.Memory, has.Resources.Memory},
		{"disk", l.Disk, r.Disk, has.Resources.Disk},
		{"tasks", int64(l.Tasks), 1, int64(has.Tasks)},
	} {
		switch {
		case m.limit == 0:
		case m.of > m.limit:
			return "limits " + m.name + " to less than one of its tasks asks for", false
		case m.of > m.limit-m.has:
			return "limits " + m.name + ", and tasks of this key there have them all", true
		}
	}
	return "", false
}

// Room is how many more such tasks a key may have where it has that; -1: as many as it likes.
func (l *Limits) Room(r taskstate.Resources, has Load) int {
	room := int64(-1)
	for _, m := range []struct{ limit, of, has int64 }{
		{l.MilliCPU, r.MilliCPU, has.Resources.MilliCPU},
		{l.Memory, r.Memory, has.Resources.Memory},
		{l.Disk, r.Disk, has.Resources.Disk},
		{int64(l.Tasks), 1, int64(has.Tasks)},
	} {
		if m.limit == 0 || m.of == 0 {
			continue
		}
		if n := max(0, (m.limit-m.has)/m.of); room < 0 || n < room {
			room = n
		}
	}
	return int(min(room, 1<<30))
}

// Check tells what is wrong with a policy that came from elsewhere: it may be larger than any.
func (p *Policy) Check() error {
	words := 0
	for i := range p.Rules {
		r := &p.Rules[i]
		words += len(r.From) + len(r.Run.Programs) + len(r.Require) + len(r.Each) + len(r.Env)
		for _, w := range slices.Concat(r.From, r.Run.Programs, r.Require, r.Env, []string{r.As, r.Net, r.Isolate}) {
			if len(w) > maxWord {
				return fmt.Errorf("a word of a rule of its policy has %d bytes, at most %d are allowed", len(w), maxWord)
			}
		}
	}
	if len(p.Rules) > MaxRules || words > 2*MaxWords || len(p.Holds) > maxHolds {
		return fmt.Errorf("its policy has %d rules with %d words, at most %d and %d are allowed", len(p.Rules), words, MaxRules, 2*MaxWords)
	}
	return nil
}

const (
	maxWord  = 1024 // bytes of a key, a role, a path
	maxHolds = 32
)

// absolute tells whether a path can stand in a policy: it names one place.
func absolute(p string) bool { return path.IsAbs(p) && path.Clean(p) == p }
