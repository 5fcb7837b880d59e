package guard

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/spell"
	"github.com/coveyproject/covey/trust/policy"
)

// OwnerView tells this machine's owner what it lets run.
type OwnerView struct {
	Owner   *Owner
	Guard   *Guard
	Name    func(taskstate.PeerID) string
	Members func() []taskstate.PeerID // that may submit
}

// Trust implements api.TrustBackend.
func (d *OwnerView) Trust(context.Context) (api.Trust, error) {
	d.Owner.Look()
	p := d.Owner.Now()
	out := api.Trust{
		File: d.Owner.Path(), Unsigned: p.Unsigned, OnRevoke: "stop", Rules: []api.TrustRule{}, Holds: p.Holds, Lacks: d.Owner.Lacks(),
		Warnings: d.Owner.Warnings(), Keys: []api.TrustKey{}, AsOf: time.Now().UTC(),
	}
	if p.Finish {
		out.OnRevoke = "finish"
	}
	if err := d.Owner.Wrong(); err != nil {
		out.Wrong = err.Error()
	}
	if out.Holds == nil {
		out.Holds = []string{}
	}
	for _, r := range p.Rules {
		out.Rules = append(out.Rules, api.TrustRule{
			Line: r.Line, From: r.From, Run: runText(r), As: r.As, Read: r.Read, Net: r.Net, Isolate: r.Isolate, Limits: limitsText(r.Limits, r.Each),
			Require: r.Require, Without: r.Without, Env: r.Env,
		})
	}
	for _, m := range d.Members() {
		k := api.TrustKey{Key: m, Name: d.Name(m), Roles: []string{}}
		for _, r := range d.Owner.Roles(m) {
			k.Roles = append(k.Roles, string(r))
		}
		out.Keys = append(out.Keys, k)
	}
	return out, nil
}

// Untrusted are the keys of other administrators, while nobody at all is let in here.
func (d *OwnerView) Untrusted() (keys []api.TrustKey) {
	if len(d.Owner.Now().Rules) > 0 || d.Owner.Wrong() != nil {
		return nil
	}
	for _, m := range d.Members() {
		if roles := d.Owner.Roles(m); m != d.Guard.cfg.Self && slices.Contains(roles, admission.Admin) {
			k := api.TrustKey{Key: m, Name: d.Name(m)}
			for _, r := range roles {
				k.Roles = append(k.Roles, string(r))
			}
			keys = append(keys, k)
		}
	}
	return keys
}

// TryTrust implements api.TrustBackend.
func (d *OwnerView) TryTrust(_ context.Context, t api.TrustTry) (api.TrustTried, error) {
	d.Owner.Look()
	c := policy.ClaimOf(&t.Job)
	c.On, c.By, c.Signed = d.Guard.cfg.Self, t.By, true
	if c.By == "" {
		c.By = c.On
	}
	if !policy.IsKey(c.By) {
		return api.TrustTried{}, api.Errorf(api.Usage, "%q is no peer's id; `peer trust list` has those of members", spell.Clip(c.By))
	}
	c.Roles = d.Owner.Roles(c.By)
	held, why := policy.Decide(d.Owner.Now(), c, d.Guard.Has(c.By))
	out := api.TrustTried{Allowed: !why.No() || why.Full, Rule: why.Rule, Reason: why.Text, AsOf: time.Now().UTC()}
	if why.No() {
		return out, nil
	}
	out.Held = heldText(held)
	if text := noUser(held.As); text != "" {
		out.Allowed, out.Reason, out.Held = false, text, nil
	}
	return out, nil
}

func runText(rule policy.Rule) string {
	r := rule.Run
	if r.Any {
		return "any"
	}
	var out []string
	if r.Process {
		out = append(out, "any program")
	}
	out = append(out, r.Programs...)
	for _, name := range rule.Env {
		out = append(out, "with "+name)
	}
	if r.Shell {
		out = append(out, "shell lines")
	}
	if r.Script {
		out = append(out, "scripts")
	}
	if len(out) == 0 {
		return "nothing"
	}
	return strings.Join(out, ", ")
}

func limitsText(l policy.Limits, each []taskstate.Limit) string {
	var out []string
	if l.MilliCPU > 0 {
		out = append(out, fmt.Sprintf("cpus %g", float64(l.MilliCPU)/1000))
	}
	if l.Memory > 0 {
		out = append(out, fmt.Sprintf("memory %d", l.Memory))
	}
	if l.Disk > 0 {
		out = append(out, fmt.Sprintf("disk %d", l.Disk))
	}
	if l.Tasks > 0 {
		out = append(out, fmt.Sprintf("tasks %d", l.Tasks))
	}
	if l.Time > 0 {
		out = append(out, "time "+spell.Span(l.Time))
	}
	for _, l := range each {
		out = append(out, fmt.Sprintf("%s %d", l.Of, l.Max))
	}
	return strings.Join(out, ", ")
}

func heldText(c taskstate.Confinement) []string {
	out := []string{"as: " + c.As, "net: " + c.Net, "isolate: " + c.Isolate}
	if len(c.Read) > 0 {
		out = append(out, "read: "+strings.Join(c.Read, ", "))
	}
	if len(c.Without) > 0 {
		out = append(out, "without: "+strings.Join(c.Without, ", "))
	}
	if c.MaxTime > 0 {
		out = append(out, "time: "+spell.Span(c.MaxTime))
	}
	if len(c.Limits) > 0 {
		out = append(out, "limits: "+limitsText(policy.Limits{}, c.Limits))
	}
	return out
}
