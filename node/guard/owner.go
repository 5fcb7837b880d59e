package guard

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/coveyproject/covey/dispatch/cron"
	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/internal/atomicfile"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/constraint"
	"github.com/coveyproject/covey/taskstate/spell"
	"github.com/coveyproject/covey/trust/policy"
)

// OwnerConfig is what an Owner rests on.
type OwnerConfig struct {
	Path    string // of the policy's file
	User    string // of this machine, whom tasks run as where the policy does not say; "": see policy.Rule
	Self    taskstate.PeerID
	Cluster func() string
	Now     func() int64 // milliseconds since 1970
	Verify  func(by taskstate.PeerID, data, sig []byte) error
	Replica *ledger.Replica                             // tells what was signed and is not wanted any more, and what was given to this peer
	Life    func() taskstate.Incarnation                // of this peer, that tasks are given to
	Roles   func(key taskstate.PeerID) []admission.Role // that people gave it: may take a while to find out
	Changed func()                                      // what is in force, or can be read, has changed
	// Facts is what constraints can ask about this peer, as it tells the coordinator, without
	// labels that people gave it. Optional.
	Facts func() constraint.Facts
	// Older tells that no version which has policies has run here yet.
	Older bool
}

// Owner is this machine's owner: the policy's file, whose job something is, and what to say to whom
// has not decided yet.
type Owner struct {
	*File
	cfg  OwnerConfig
	memo taskstate.OrderMemo
}

// NewOwner reads the policy's file. Until Settle a machine without one lets nothing run.
func NewOwner(cfg OwnerConfig) *Owner {
	f := OpenFile(cfg.Path, cfg.Changed)
	if cfg.User != "" {
		f.user = taskstate.AsUser + cfg.User
	}
	return &Owner{File: f, cfg: cfg}
}

// Roles are those that people gave a key.
func (o *Owner) Roles(key taskstate.PeerID) []admission.Role { return o.cfg.Roles(key) }

// Void tells whether a key was revoked.
func (o *Owner) Void(key taskstate.PeerID) (void bool) {
	o.cfg.Replica.Read(func(s *ledger.State) {
		m, known := s.Member(key)
		void = known && m.Revoked
	})
	return void
}

// Asks tells whose job a task is of, and whether that key signed it. An error is that the job is
// not what somebody signed, or that this peer was not given it: ErrUnsure, if the ledger could
// still say otherwise.
func (o *Owner) Asks(l *taskstate.Launch) (by taskstate.PeerID, signed bool, err error) {
	err = o.memo.Check(l, o.cfg.Cluster(), o.cfg.Now(), o.cfg.Verify)
	signed = err == nil || errors.Is(err, taskstate.ErrOrderExpired) // what runs is not stopped for that
	claim := policy.ClaimOf(l.Job)
	switch unsigned := errors.Is(err, taskstate.ErrNoOrder); {
	case unsigned:
		return claim.By, false, o.given(l)
	case err == nil:
		err = o.outdated(l.Task, l.Job)
	}
	if err == nil {
		err = o.given(l)
	}
	return claim.By, signed, err
}

// How far what others name may be ahead of the time as it is known here.
const (
	clockSlack = 5 * time.Minute                // of the moment a schedule names: the coordinator's clock
	orderAhead = taskstate.MaxSkew + clockSlack // of when an order was signed: the clock of any peer that may ask
)

// given holds what the coordinator says of a task – which attempt of which slot, started by which
// moment, on which peer – against what the ledger says and the submitter signed.
func (o *Owner) given(l *taskstate.Launch) (err error) {
	life, facts := o.cfg.Life(), constraint.Facts{}
	if o.cfg.Facts != nil && len(l.Job.Constraints) > 0 {
		facts = o.cfg.Facts()
	}
	o.cfg.Replica.Read(func(s *ledger.State) {
		if err = s.Warrants().Given(l.Task, l.Job, o.cfg.Self, life); err == nil && facts.ID != "" {
			err = unmet(s, l.Job, facts)
		}
	})
	now := o.cfg.Now()
	from, by := l.Job.Origin, l.Job.Order
	switch {
	case from != nil && from.At > now+clockSlack.Milliseconds():
		err = fmt.Errorf("it is to have been started at %s, and here it is %s", spell.Minute(from.At), spell.Minute(now))
	case by != nil && by.At > now+orderAhead.Milliseconds():
		err = fmt.Errorf("it was signed at %s, and here it is %s: one of the clocks is %s off", spell.Minute(by.At), spell.Minute(now), spell.Span((by.At-now)/60_000*60_000))
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnsure, err)
	}
	return nil
}

// unmet names a constraint of a job that this peer does not meet: the submitter signed them, and a
// malicious coordinator could place the job anywhere.
func unmet(s *ledger.State, job *taskstate.Job, facts constraint.Facts) error {
	wants, err := constraint.ParseAll(job.Constraints)
	if err != nil {
		return err
	}
	if m, known := s.Member(facts.ID); known {
		facts.Labels = m.LabelsOver(facts.Labels)
	}
	if at := constraint.FirstBroken(wants, &facts); at >= 0 {
		return fmt.Errorf("its constraint %s is not met by this peer", wants[at])
	}
	return nil
}

// tooLong tells whether a job's order is to count for longer than orders do.
func tooLong(job *taskstate.Job) bool {
	most := job.OrderLasts()
	if job.Order.Starts != nil {
		most = max(most, taskstate.LastingOrder)
	}
	lasts := job.Order.Until - job.Order.At // whoever signs it can name any two: their difference may be none
	return lasts < 0 || lasts > most.Milliseconds()
}

// outdated tells why a task is not to start though its job was signed, as far as is known here.
func (o *Owner) outdated(id taskstate.TaskID, job *taskstate.Job) (err error) {
	if by := job.Order; by != nil && by.Starts != nil && job.Origin != nil && !cron.Names(&by.Starts.Schedule, job.Origin.At) {
		return fmt.Errorf("%w: its schedule starts nothing at %s", taskstate.ErrOrderForged, time.UnixMilli(job.Origin.At).UTC().Format(time.RFC3339))
	}
	if tooLong(job) {
		return fmt.Errorf("%w for so long: until %s", taskstate.ErrOrderForged, spell.Minute(job.Order.Until))
	}
	o.cfg.Replica.Read(func(s *ledger.State) { err = s.Warrants().Outdated(id, job) })
	return err
}

// Settle gives a machine without a policy its first one, when it is known how it came into its
// cluster, and with which roles. It says what a person should know of that. A machine of others
// that has been a member for longer goes on as before until its owner decides; one whose file is
// gone does not: it may have let in nobody.
func (o *Owner) Settle(resumed bool, roles []admission.Role) (warning string, err error) {
	mine := allRoles(roles)
	if o.Exists() {
		return "", o.resettle(resumed, mine)
	}
	text, upgraded := policy.Text(mine, resumed && o.cfg.Older), resumed && o.cfg.Older
	switch {
	case upgraded && mine:
		warning = fmt.Sprintf("from now on %s says what this machine runs: what it and administrators ask for. It lets in jobs that peers of an older version did not sign; remove its line `unsigned: allow` when all peers are new", o.Path())
	case upgraded:
		text = policy.TextAsBefore()
	case resumed && mine:
		warning = fmt.Sprintf("%s was gone, and is written anew: this machine runs what it and administrators ask for. If it said something else, write it again with `peer trust edit`", o.Path())
	case resumed:
		warning = fmt.Sprintf("%s was gone, and is written anew: this machine runs nothing until its owner lets somebody in with `peer trust add KEY`", o.Path())
	}
	return warning, o.write(text)
}

// resettle takes back what a machine said as long as it was alone, if it now joins a cluster of
// others and nobody has changed the file.
func (o *Owner) resettle(resumed, mine bool) error {
	if resumed || mine {
		return nil
	}
	text, err := readFile(o.Path())
	if err != nil {
		return nil // it lets nothing run, and that is said
	}
	if p := string(text); p != string(policy.Text(true, false)) && p != string(policy.Text(true, true)) {
		return nil
	}
	return o.write(policy.Text(false, false))
}

func (o *Owner) write(text []byte) error {
	if err := atomicfile.Write(o.Path(), text); err != nil {
		return err
	}
	o.Look()
	return nil
}

func allRoles(roles []admission.Role) bool {
	return !slices.ContainsFunc(admission.AllRoles(), func(r admission.Role) bool { return !slices.Contains(roles, r) })
}

// Warnings are what this machine's owner should know of its policy.
func (o *Owner) Warnings() (out []string) {
	if w := o.Warning(); w != "" {
		out = append(out, w)
	}
	for i, r := range o.Now().Rules {
		if why := noUser(r.As); why != "" {
			out = append(out, fmt.Sprintf("rule %d of this machine's policy (line %d) lets nothing run: %s; fix it with `peer trust edit`", i+1, r.Line, why))
		}
	}
	return append(out, o.Undecided()...)
}

// noUser says that a machine has no user of the name that tasks are to run as.
func noUser(as string) string {
	name, named := strings.CutPrefix(as, taskstate.AsUser)
	if !named {
		return ""
	}
	if _, err := user.Lookup(name); err != nil {
		return fmt.Sprintf("tasks are to run as %s: %v", name, err)
	}
	return ""
}

// Undecided is what a policy that can be read leaves open.
func (o *Owner) Undecided() (out []string) {
	p := o.Now()
	switch {
	case o.asBefore():
		out = append(out, fmt.Sprintf("nobody has decided what this machine runs: whoever may submit has commands run here, as user %s. Decide with `peer trust add KEY`, which lets in that one and nobody else; `peer trust edit` shows the file", userName()))
	case len(p.Rules) == 0 && o.Wrong() == nil:
		out = append(out, "this machine runs nothing: its owner has let nobody in; `peer trust add KEY` does (`peer trust list` has the keys)")
	case p.Unsigned:
		out = append(out, fmt.Sprintf("this machine runs jobs that nobody signed (`unsigned: allow` in %s): whoever coordinates can have it run anything in an administrator's name; remove that line when all peers sign", o.Path()))
	}
	return out
}

// asBefore tells that nobody has decided yet on a machine of others that was a member before there
// were policies.
func (o *Owner) asBefore() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Equal(o.text, policy.TextAsBefore())
}

// userName is who runs this peer.
func userName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return fmt.Sprint(os.Getuid())
}
