package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
	"github.com/coveyproject/covey/taskstate"
)

func drainCommand(c *cli) *cobra.Command {
	var grace, timeout time.Duration
	var wait, drop bool
	var reason string
	cmd := &cobra.Command{
		Use:   "drain PEER",
		Short: "Move all tasks away from a peer and give it no more",
		Long: `Give a peer no more tasks, and move those it has: a service's go elsewhere at once, a global job's
end, and a batch job's are stopped and run again elsewhere – at once, or when --grace is over and
they still run. (Of a batch job that must not run twice, what had begun ends there.) It holds
until ` + "`peer activate`" + `, also across restarts; a peer that is away now learns it when it is back.

PEER is an id, a unique part of one, a name, or ` + "`self`" + `: the peer that is asked.

--wait returns when nothing is left there: every task given to it has ended, its last status is
acknowledged, and what tasks left and printed there is kept by another peer, too. Nothing is lost
if it is then switched off. Where no other peer can take what tasks printed, it names their jobs and
ends with exit code 6; --drop-output goes on without. With --timeout it gives up waiting with exit
code 5 and says what is left; the drain goes on, as it does after Ctrl-C. For a peer that is drained
already it only waits, and the grace it was given stays; without --wait, or with --grace, what is
said now holds.`,
		Example: `  peer drain laptop --wait && ssh laptop peer down
  peer drain laptop --grace 10m --reason "goes to the repair shop"
  peer drain self`,
		Args: exactly(1, whichPeer),
		RunE: untilCtrlC(func(cmd *cobra.Command, args []string) error {
			switch {
			case drop && !wait:
				return api.Errorf(api.Usage, "--drop-output goes with --wait")
			case timeout > 0 && !wait:
				return api.Errorf(api.Usage, "--timeout needs a duration above 0 and goes with --wait")
			}
			a := api.Availability{Availability: api.Drained, Grace: grace.Seconds(), Reason: reason}
			said := cmd.Flags().Changed("grace") || cmd.Flags().Changed("reason")
			return draining{wait: wait, drop: drop, timeout: timeout, join: wait && !said}.run(cmd.Context(), c, args[0], a)
		}),
	}
	f := cmd.Flags()
	durationVar(f, &grace, "grace", 0, "let tasks of batch jobs that run go on for `D`, as in 10m")
	f.BoolVar(&wait, "wait", false, "return when nothing is left there")
	f.BoolVar(&drop, "drop-output", false, "with --wait: do not wait for what tasks printed to be kept by another peer")
	durationVar(f, &timeout, "timeout", 0, "with --wait: give up waiting after `D`")
	f.StringVar(&reason, "reason", "", "`TEXT` for people, shown in `peer peers`")
	return cmd
}

type draining struct {
	wait    bool
	drop    bool // what tasks printed need not be kept elsewhere
	timeout time.Duration
	join    bool // one that somebody began: what they said of it stays
}

func (d draining) run(ctx context.Context, c *cli, peer string, a api.Availability) error {
	cl := c.client()
	var p api.PeerAnswer
	var err error
	if d.join {
		p, err = cl.Peer(ctx, peer)
	}
	if err == nil && p.Peer.Availability != api.Drained {
		p, err = cl.SetAvailability(ctx, peer, a)
	}
	if err != nil {
		return err
	}
	if d.wait {
		if err := d.awaitEmpty(ctx, cl, c.Err, p.Peer.ID); err != nil {
			return err
		}
		if p, err = cl.Peer(ctx, p.Peer.ID); err != nil {
			return err
		}
	}
	return emit(c, nil, p, []api.Peer{p.Peer}, func(io.Writer) {
		if left := tasksLeft(p.Peer); left > 0 {
			fmt.Fprintf(c.Err, "%s is drained; %s left (`peer peers` says how many are, `peer drain %s --wait` waits for them)\n", peerCalled(p.Peer), tasksText(left), peer)
			return
		}
		fmt.Fprintf(c.Err, "%s is drained; nothing is left on it\n", peerCalled(p.Peer))
	})
}

// errDropped ends waiting where only what tasks printed is left.
var errDropped = errors.New("only output is left")

// awaitEmpty returns when nothing is left on a drained peer.
func (d draining) awaitEmpty(ctx context.Context, cl *client.Client, w io.Writer, peer string) error {
	timeout := d.timeout
	limited, cancel := ctx, context.CancelFunc(func() {})
	if timeout > 0 {
		limited, cancel = context.WithTimeout(ctx, timeout)
	}
	defer cancel()
	line := newProgress(w)
	var last api.Draining
	err := cl.Draining(limited, peer, func(now api.Draining) error {
		last = now
		if d.drop && now.Left == 0 && now.Only == 0 && now.Note != "" { // it cannot be asked
			return errDropped
		}
		line.text(leftText(now, 1))
		return nil
	})
	line.done()
	refused, ok := errors.AsType[*api.Error](err)
	if d.drop && (errors.Is(err, errDropped) || ok && refused.Code == api.Conflict && last.Sole > 0) {
		return nil
	}
	if late := errors.Is(limited.Err(), context.DeadlineExceeded) && ctx.Err() == nil; late && last.Name == "" {
		return api.Errorf(api.TimedOut, "nothing was heard of what is left on %s within %s. The drain goes on; see `peer peers`", printable(peer), timeout)
	} else if late && (err != nil || last.Left > 0 || last.Only > 0 || last.Sole > 0) {
		return api.Errorf(api.TimedOut, "%s is not empty after %s: %s. The drain goes on; see `peer peers`", last.Name, timeout, leftText(last, 3))
	}
	return err
}

// leftText says what is left on a peer, naming so many of the tasks, and what keeps it.
func leftText(d api.Draining, shown int) string {
	var names []string
	for i, t := range d.Tasks {
		if i == shown {
			break
		}
		names = append(names, t.Called()+" "+taskstate.Shown(t.State))
	}
	only := ""
	if d.Only > 0 {
		only = "the only copy of what " + tasksText(d.Only) + " left: another peer is to keep it (`peer explain` says why none does, `peer get JOB` brings it to you)"
	}
	sole := ""
	if d.Sole > 0 {
		sole = "what " + tasksText(d.Sole) + " printed: another peer is to keep it, too"
	}
	if d.Left == 0 && (d.Only > 0 || d.Sole > 0) {
		return strings.Join(slices.DeleteFunc([]string{only, sole, d.Note}, func(s string) bool { return s == "" }), "; ")
	}
	text := tasksText(d.Left) + " left"
	if len(names) > 0 {
		text += ": " + strings.Join(names, ", ")
	}
	if more := d.Left - len(names); more > 0 && len(names) > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	if d.Until != nil {
		text += fmt.Sprintf(" (batch tasks may go on for %s)", short(max(0, time.Until(*d.Until)).Round(time.Second)))
	}
	for _, more := range []string{d.Note, only, sole} {
		if more != "" {
			text += "; " + more
		}
	}
	return text
}
