package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/internal/atomicfile"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/trust/policy"
)

const trustLong = `Say what this machine runs, and for whom. That is this machine's own business: it is in policy.yaml
in its data folder, no other peer can change it, and whoever coordinates the cluster has to keep to
it. The first rule that names who asks and what is to run decides; none means no.

A machine of your own, with all roles, runs what it and administrators ask for. A machine of
somebody else (` + "`peer ticket --guest`" + `) runs nothing until its owner adds a key. Keys are peers' ids:
every peer chooses its own name. ` + "`peer key`" + ` prints a peer's own.

docs/trust.md says what rules can say.`

func trustCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "trust",
		Short: "Say whose jobs this machine runs",
		Long:  trustLong,
		Example: `  peer trust list                      what this machine runs, and for whom
  peer trust add 12D3KooW…             let in what this key asks for
  peer trust add 12D3KooW… --only /usr/bin/ffmpeg
  peer trust remove 12D3KooW…          no more, and what runs of it is stopped
  peer trust edit                      the whole file, in $EDITOR
  peer trust test job.yaml --from 12D3KooW…`,
		Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error { return trustList(cmd.Context(), c) },
	}
	cmd.AddCommand(trustListCommand(c), trustAddCommand(c), trustRemoveCommand(c), trustEditCommand(c), trustTestCommand(c))
	return cmd
}

func trustListCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "Show what this machine runs, for whom, and the keys of members",
		Example: "  peer trust list\n  peer trust list -o json",
		Args:    exactly(0, ""),
		RunE:    func(cmd *cobra.Command, _ []string) error { return trustList(cmd.Context(), c) },
	}
}

func trustList(ctx context.Context, c *cli) error {
	t, err := c.client().Trust(ctx)
	return emit(c, err, t, t.Rules, func(w io.Writer) { trustText(w, t, c.carry) })
}

func trustText(w io.Writer, t api.Trust, carry func(string) string) {
	names := map[string]string{}
	for _, k := range t.Keys {
		names[policy.Key+k.Key] = k.Name
	}
	if len(t.Rules) == 0 {
		fmt.Fprintln(w, "this machine runs nothing: no rule lets anybody in")
	} else {
		g := table("RULE", "FROM", "RUN", "HELD TO")
		for i, r := range t.Rules {
			var from, held []string
			for _, f := range r.From {
				if name, here := names[f]; name != "" {
					f += " (" + name + ")"
				} else if !here && strings.HasPrefix(f, policy.Key) {
					f += " (no member that may submit)"
				}
				from = append(from, f)
			}
			for _, h := range [][2]string{
				{"as", r.As},
				{"net", r.Net},
				{"isolate", r.Isolate},
				{"read", strings.Join(r.Read, " ")},
				{"limits", r.Limits},
				{"require", strings.Join(r.Require, " ")},
				{"without", strings.Join(r.Without, " ")},
			} {
				if h[1] != "" {
					held = append(held, h[0]+" "+h[1])
				}
			}
			g.add(strconv.Itoa(i+1), strings.Join(from, ", "), r.Run, orDash(strings.Join(held, "; ")))
		}
		g.write(w)
	}
	fmt.Fprintf(w, "file: %s\n", t.File)
	for _, what := range slices.Sorted(maps.Keys(t.Lacks)) {
		fmt.Fprintf(w, "%s does not hold here: %s\n", what, t.Lacks[what])
	}
	if len(t.Keys) > 0 {
		fmt.Fprintln(w)
		g := table("KEY", "NAME", "ROLES")
		for _, k := range t.Keys {
			g.add(k.Key, orDash(k.Name), orDash(strings.Join(k.Roles, ",")))
		}
		g.write(w)
	}
	for _, x := range t.Warnings {
		fmt.Fprintln(w, "warning: "+carry(x))
	}
}

func trustAddCommand(c *cli) *cobra.Command {
	var only []string
	var fingerprint string
	cmd := &cobra.Command{
		Use:   "add KEY",
		Short: "Let this machine run what a key asks for",
		Long: `Let this machine run what a key asks for, by a rule at the end of policy.yaml. It counts at once.

A member can be named instead of its key, but every peer chooses its own name: the key and its
fingerprint are shown, and you are asked whether ` + "`peer key`" + ` prints that fingerprint over there. A
script types the key, or the fingerprint with --fingerprint.`,
		Example: "  peer trust add 12D3KooW…\n  peer trust add alpha\n  peer trust add alpha --fingerprint qxyz-…\n  peer trust add 12D3KooW… --only /usr/bin/ffmpeg",
		Args:    exactly(1, "the KEY of the peer whose jobs are to run here, as `peer key` prints it there"),
		RunE: untilCtrlC(func(cmd *cobra.Command, args []string) error {
			key, err := c.confirmedKey(cmd.Context(), args[0], fingerprint)
			if err != nil {
				return err
			}
			err = c.changePolicy(cmd.Context(), func(text []byte) ([]byte, string, error) { return addKey(text, key, only) })
			if err == nil {
				c.sayMeaning(cmd.Context(), key, len(only) > 0)
			}
			return err
		}),
	}
	cmd.Flags().StringArrayVar(&only, "only", nil, "only this program, by its `PATH` (repeatable); no shell lines, scripts or variables that load code")
	cmd.Flags().StringVar(&fingerprint, "fingerprint", "", "the key has this `FINGERPRINT`, as `peer key` prints it over there; nothing is asked")
	return cmd
}

// sayMeaning says what tasks of a key that is let in can do to the user that runs the peer, and
// whether another rule lets a key run more than the programs that were listed.
func (c *cli) sayMeaning(ctx context.Context, key string, listed bool) {
	if t, err := c.client().Trust(ctx); err == nil {
		if rule, by := letIn(t, key, func(r api.TrustRule) bool { return r.Run == "any" }); listed && rule > 0 {
			fmt.Fprintln(c.Err, c.carry(fmt.Sprintf("warning: it may run anything all the same, by rule %d, as %s: change that rule with `peer trust edit`, or its roles with `peer roles`", rule, by)))
		}
		if says := lettingIn(t.Holds); says != "" {
			fmt.Fprintln(c.Err, c.carry(says))
		}
	}
}

// lettingIn is what being let in means on a machine where so much holds, "" where tasks of other
// keys have a user of their own.
func lettingIn(holds []string) string {
	const means = "tasks of this key run as the user that runs this peer: they can read and write what that user can"
	switch {
	case slices.Contains(holds, taskstate.RequireUser):
		return ""
	case slices.Contains(holds, taskstate.HoldsHide):
		return "note: " + means + ", except the data folder; to give them a user of their own, run the peer as root"
	}
	return "warning: " + means + ", and the data folder, as it cannot be hidden here: with its key they can act as this peer"
}

// addKey adds a rule for a key to the policy's text.
func addKey(text []byte, key string, only []string) (out []byte, said string, err error) {
	out, err = policy.Add(text, key, only)
	if errors.Is(err, policy.ErrHas) {
		return nil, "", api.Errorf(api.Conflict, "%v: %s", err, key)
	}
	what := "what " + key + " asks for"
	if len(only) > 0 {
		what = strings.Join(only, ", ") + " for " + key
	}
	return out, "this machine runs " + what, err
}

func trustRemoveCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "remove KEY",
		Short: "Stop trusting a key: run nothing more for it, and stop its tasks here",
		Long: `Take a key out of all rules of policy.yaml. What runs of it here is stopped, and runs elsewhere if
its job allows; with on_revoke: finish in the file it goes on to its end. Rules that name a role are
left as they are: an administrator's key is let in by role:admin, too.`,
		Example: "  peer trust remove 12D3KooW…",
		Args:    exactly(1, "the KEY that is to be let in no more; `peer trust list` has them"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var gone string
			err := c.changeOf(func(text []byte, key string) ([]byte, string, error) {
				out, had, err := policy.Remove(text, key)
				if err == nil && !had {
					err = api.Errorf(api.NotFound, "no rule names %s; roles are taken away with `peer roles`, and rules changed with `peer trust edit`", key)
				}
				gone = key
				return out, "no rule names " + key + " any more", err
			})(cmd, args)
			if err != nil {
				return err
			}
			if t, err := c.client().Trust(cmd.Context()); err == nil {
				if rule, by := letIn(t, gone, func(api.TrustRule) bool { return true }); rule > 0 {
					fmt.Fprintln(c.Err, c.carry(fmt.Sprintf("warning: it is still let in, by rule %d, as %s: change that rule with `peer trust edit`, or its roles with `peer roles`", rule, by)))
				}
			}
			return nil
		},
	}
}

// letIn returns the first rule, from 1, of those that fit which lets a key in, and by which word:
// the key itself or a role that it has.
func letIn(t api.Trust, key string, fits func(api.TrustRule) bool) (rule int, by string) {
	words := []string{policy.Key + key}
	for _, k := range t.Keys {
		for _, role := range k.Roles {
			if k.Key == key {
				words = append(words, policy.Role+role)
			}
		}
	}
	for i, r := range t.Rules {
		for _, f := range r.From {
			if fits(r) && slices.Contains(words, f) {
				return i + 1, f
			}
		}
	}
	return 0, ""
}

// changeOf changes the policy's text for the key that is named.
func (c *cli) changeOf(change func(text []byte, key string) ([]byte, string, error)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		key, err := c.keyOf(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return c.changePolicy(cmd.Context(), func(text []byte) ([]byte, string, error) { return change(text, key) })
	}
}

func trustEditCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "edit",
		Short:   "Edit policy.yaml; it is checked before it counts",
		Example: "  peer trust edit\n  EDITOR=nano peer trust edit",
		Args:    exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.changePolicy(cmd.Context(), func(text []byte) ([]byte, string, error) {
				out, err := edited(cmd.Context(), c, text)
				return out, "", err
			})
		},
	}
}

// edited is a text as somebody leaves it who edits it. One that is no policy is kept for them.
func edited(ctx context.Context, c *cli, text []byte) ([]byte, error) {
	dir, err := os.MkdirTemp("", "peer-policy")
	if err != nil {
		return nil, api.Errorf(api.Failed, "%v", err)
	}
	keep := false
	defer func() {
		if !keep {
			_ = os.RemoveAll(dir)
		}
	}()
	path := filepath.Join(dir, policy.FileName)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return nil, api.Errorf(api.Failed, "%v", err)
	}
	editor := os.Getenv("VISUAL")
	if editor == "" {
		editor = os.Getenv("EDITOR")
	}
	if editor == "" {
		editor = "vi"
	}
	words := strings.Fields(editor)
	run := exec.CommandContext(ctx, words[0], append(words[1:], path)...)
	run.Stdin, run.Stdout, run.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := run.Run(); err != nil {
		return nil, api.Errorf(api.Failed, "%s: %v; nothing was changed. Another editor can be named in EDITOR", editor, err)
	}
	out, err := os.ReadFile(path)
	if err != nil {
		return nil, api.Errorf(api.Failed, "%v; nothing was changed", err)
	}
	if _, err := policy.Read(out); err != nil {
		keep = true
		return nil, api.Errorf(api.Usage, "%s:%v; nothing was changed, and what you wrote is in that file", path, err)
	}
	return out, nil
}

// keyOf is a key as it was typed, or that of the member that was named.
func (c *cli) keyOf(ctx context.Context, word string) (string, error) {
	if p2p.IsKey(word) {
		return word, nil
	}
	k, err := c.memberCalled(ctx, word)
	return k.Key, err
}

// memberCalled finds the member that a name, or the beginning of a key, means.
func (c *cli) memberCalled(ctx context.Context, word string) (found api.TrustKey, err error) {
	t, err := c.client().Trust(ctx)
	if err != nil {
		return found, err
	}
	var all []string
	for _, k := range t.Keys {
		if k.Name == word || strings.HasPrefix(k.Key, word) {
			found = k
			all = append(all, k.Key+" ("+api.Fingerprint(k.Key)+")")
		}
	}
	switch len(all) {
	case 1:
		return found, nil
	case 0:
		return found, api.Errorf(api.NotFound, "%q is no key as `peer key` prints it, and no member that may submit is called so; `peer trust list` has them", word)
	}
	return found, api.Errorf(api.Conflict, "%d members are meant by %q: %s; type the key", len(all), word, strings.Join(all, ", "))
}

// confirmedKey is a key as it was typed, or that of the member that was named if the user, or a
// fingerprint, confirms that it is the right one.
func (c *cli) confirmedKey(ctx context.Context, word, fingerprint string) (string, error) {
	k := api.TrustKey{Key: word}
	named := !p2p.IsKey(word)
	if named {
		var err error
		if k, err = c.memberCalled(ctx, word); err != nil {
			return "", err
		}
	}
	has := api.Fingerprint(k.Key)
	switch {
	case fingerprint != "" && fingerprint != has:
		return "", api.Errorf(api.Conflict, "nothing was changed: the fingerprint of %s is %s, not %s; if `peer key` there prints %s, this is another machine", k.Key, has, fingerprint, fingerprint)
	case fingerprint != "" || !named:
		return k.Key, nil
	}
	fmt.Fprintf(c.Err, "%s has the key %s\nfingerprint %s\n", word, k.Key, has)
	if !c.asksUser() {
		return "", api.Errorf(api.Usage, "nothing was changed: a peer chooses its own name, so %s may be another machine than you mean; compare the fingerprint with what `peer key` there prints, and type the key, or the fingerprint with --fingerprint", word)
	}
	answer, err := ask(ctx, c.Streams, "Every peer chooses its own name. Compare the fingerprint with what `peer key` there prints; if it is the same, type yes: ")
	if (err == nil || errors.Is(err, io.EOF)) && answer != "yes" {
		err = api.Errorf(api.Failed, "nothing was changed")
	}
	return k.Key, err
}

// changePolicy changes the policy's file, and tells what holds then. The peer need not run.
func (c *cli) changePolicy(ctx context.Context, change func(text []byte) (out []byte, said string, err error)) error {
	path := filepath.Join(c.data, policy.FileName)
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(c.data); err != nil {
			return api.Errorf(api.NotFound, "there is no peer in %s; `peer up` makes one", c.data)
		}
		text = policy.Text(false, false)
	case err != nil:
		return api.Errorf(api.Failed, "cannot read the policy of this machine: %v; have it readable, or put it aside and begin a new one with `peer trust edit`", err)
	}
	out, said, err := change(text)
	if err != nil {
		if _, known := errors.AsType[*api.Error](err); known {
			return err
		}
		return api.Errorf(api.Usage, "%s: %v", path, err)
	}
	if _, err := policy.Read(out); err != nil {
		return api.Errorf(api.Usage, "%s:%v; nothing was changed", path, err)
	}
	if err := atomicfile.Write(path, out); err != nil {
		return api.Errorf(api.Failed, "%v", err)
	}
	if said != "" {
		fmt.Fprintln(c.Err, said)
	}
	t, err := c.client().Trust(ctx)
	if err != nil {
		fmt.Fprintf(c.Err, "%s is written; it counts when the peer runs\n", path)
		return nil
	}
	return emit(c, nil, t, t.Rules, func(w io.Writer) {
		if said == "" {
			trustText(w, t, c.carry)
		}
	})
}

func trustTestCommand(c *cli) *cobra.Command {
	var from, at string
	cmd := &cobra.Command{
		Use:   "test FILE",
		Short: "Tell whether a job would run here, and held to what",
		Long: `Tell whether a task of a job file would run on this machine if a key asked for it, by which rule,
and held to what. Nothing is changed. --at asks what another peer's owner says of it, if this
machine submitted it; ` + "`peer submit --dry-run`" + ` does so for all peers. Exit code 1: it would not run.`,
		Example: "  peer trust test job.yaml\n  peer trust test job.yaml --from 12D3KooW…\n  peer trust test job.yaml --at alpha",
		Args:    exactly(1, "a job file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := oneOf(cmd, "from", "at"); err != nil {
				return err
			}
			job, _, _, err := readJob(args[0], c.In)
			if err != nil {
				return err
			}
			var t api.TrustTried
			if at != "" {
				t, err = c.triedAt(cmd.Context(), api.Submit{Job: *job}, at)
			} else {
				if from != "" {
					if from, err = c.keyOf(cmd.Context(), from); err != nil {
						return err
					}
				}
				t, err = c.client().TryTrust(cmd.Context(), api.TrustTry{Job: *job, By: from})
			}
			err = emit(c, err, t, []api.TrustTried{t}, func(w io.Writer) { triedText(w, t) })
			if err == nil && !t.Allowed {
				return exitError(1)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "as if this `KEY` asked for it (default this machine's own)")
	cmd.Flags().StringVar(&at, "at", "", "ask about this `PEER` instead, as it tells others")
	return cmd
}

// triedAt is what another peer's owner says of a job, as the coordinator knows it.
func (c *cli) triedAt(ctx context.Context, s api.Submit, peer string) (t api.TrustTried, err error) {
	p, err := c.client().Preview(ctx, s)
	if err != nil {
		return t, err
	}
	for _, o := range p.Owners {
		if o.Peer == peer || o.PeerName == peer || strings.HasPrefix(o.Peer, peer) {
			return api.TrustTried{Allowed: o.Allowed, Reason: o.Reason, AsOf: p.AsOf}, nil
		}
	}
	return t, api.Errorf(api.NotFound, "no peer %s is here that takes tasks; see `peer peers`", peer)
}

func triedText(w io.Writer, t api.TrustTried) {
	rule := ""
	if t.Rule > 0 {
		rule = fmt.Sprintf(" (rule %d)", t.Rule)
	}
	switch {
	case !t.Allowed:
		fmt.Fprintln(w, "no: "+printable(t.Reason))
	case t.Reason != "":
		fmt.Fprintf(w, "yes%s, later: %s\n", rule, printable(t.Reason))
	default:
		fmt.Fprintf(w, "yes%s\n", rule)
	}
	for _, h := range t.Held {
		fmt.Fprintln(w, "  "+printable(h))
	}
}
