package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/node"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
	"github.com/coveyproject/covey/node/clinic"
)

// checkups is what `peer doctor -o json` prints.
type checkups struct {
	Peers []api.Checkup `json:"peers"`
	AsOf  time.Time     `json:"as_of"`
}

func (d checkups) fail() bool { return slices.ContainsFunc(d.Peers, api.Checkup.Fails) }

func doctorCommand(c *cli) *cobra.Command {
	var all bool
	var bundle string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Whether this peer is well, and what to type if it is not",
		Long: `Whether this peer is well: what it knows to be wrong, the voters, how others reach it, its clock,
disk, data folder, limits, versions and names. Each line is one check:

  ✓ as it should be     ! it goes on, and could be better     ✗ it does not work

with what to type below it; what could not be tried is said. Without a peer that answers, what can
be seen in the data folder is told. docs/doctor.md says what each check means.

--bundle writes what was found to a zip for somebody who helps, with the peer's log, numbers and
settings and without keys, tickets, tokens, its policy and what jobs run. Read it before you send
it.

Exits with 1 if a check failed (✗), otherwise with 0.`,
		Example: "  peer doctor\n  peer doctor --all\n  peer doctor --bundle covey.zip\n  peer doctor -o json | jq -r '.peers[].findings[] | select(.result==\"fail\").text'",
		Args:    exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := c.examine(cmd.Context(), all)
			if err == nil && bundle != "" {
				err = c.writeBundle(cmd.Context(), bundle, d)
			}
			if err == nil {
				err = emit(c, nil, d, d.Peers, func(w io.Writer) { writeCheckups(w, d.Peers, c.carry) })
			}
			if err == nil && d.fail() {
				return exitError(1)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "ask every peer; those that do not answer are named")
	cmd.Flags().StringVar(&bundle, "bundle", "", "write a zip for somebody who helps to this new `FILE`; it has no secrets in it")
	return cmd
}

// doctorPatience bounds how long a peer is waited for, and askedAtOnce how many are.
const (
	doctorPatience = 15 * time.Second
	askedAtOnce    = 16
)

// examine asks about this peer, or all. If none answers here, its folder is looked at.
func (c *cli) examine(ctx context.Context, all bool) (checkups, error) {
	cl := c.client()
	defer cl.Close()
	peers := []api.Peer{{ID: "self"}}
	if all {
		ctx, cancel := context.WithTimeout(ctx, doctorPatience)
		defer cancel()
		ps, err := cl.Peers(ctx)
		if err != nil {
			return c.withoutPeer(err)
		}
		peers = slices.DeleteFunc(ps.Peers, func(p api.Peer) bool { return p.Standing == "left" })
	}
	d := checkups{Peers: make([]api.Checkup, len(peers)), AsOf: time.Now().UTC()}
	errs := make([]error, len(peers))
	turns := make(chan struct{}, askedAtOnce)
	var asking sync.WaitGroup
	for i, p := range peers {
		asking.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			ctx, cancel := context.WithTimeout(ctx, doctorPatience)
			defer cancel()
			d.Peers[i], errs[i] = cl.Examine(ctx, p.ID)
		})
	}
	asking.Wait()
	for i, err := range errs {
		switch {
		case err == nil:
		case all && ctx.Err() == nil && !unreached(err):
			f := api.Finding{Check: "peer", Result: api.FindingFail, Text: "nothing was found out about it: " + err.Error(), Do: "type `peer doctor` there"}
			d.Peers[i] = api.Checkup{Peer: peers[i].ID, PeerName: peers[i].Name, Findings: []api.Finding{f}, AsOf: d.AsOf}
		default:
			return c.withoutPeer(err)
		}
	}
	return d, ctx.Err()
}

// withoutPeer looks at the folder of a peer that does not answer.
func (c *cli) withoutPeer(err error) (checkups, error) {
	hung := errors.Is(err, context.DeadlineExceeded)
	if !hung && !unreached(err) {
		return checkups{}, err
	}
	k := clinic.Stopped(c.data, version())
	if do := howToStart("/", c.data); do != client.Start {
		k.Findings[0].Do = do
	}
	if node.InUse(c.data) {
		k.Findings[0].Text = "a peer holds the data folder " + c.data + ", and does not answer"
		k.Findings[0].Do = "see " + filepath.Join(c.data, logName) + "; if that does not say why, end the process and type `peer up`"
	}
	return checkups{Peers: []api.Checkup{k}, AsOf: k.AsOf}, nil
}

// unreached tells that no peer answers here.
func unreached(err error) bool {
	return err != nil && api.AsError(err).Code == api.NoCoordinator
}

// writeCheckups writes one line for each check, below the name of its peer if there are several.
func writeCheckups(w io.Writer, peers []api.Checkup, carry func(string) string) {
	st := styleFor(w)
	for i, p := range peers {
		if len(peers) > 1 {
			carry = func(s string) string { return s } // what is to be typed is to be typed there
			if i > 0 {
				fmt.Fprintln(w)
			}
			fmt.Fprintln(w, printable(cmp.Or(p.PeerName, shortID(p.Peer))))
		}
		for _, f := range p.Findings {
			mark, colour := "✓", "32"
			switch f.Result {
			case api.FindingWarn:
				mark, colour = "!", "33"
			case api.FindingFail:
				mark, colour = "✗", "31"
			case api.FindingUntried:
				mark, colour = "-", "2"
			}
			fmt.Fprintln(w, st.paint(colour, mark)+" "+printable(carry(f.Text)))
			if f.Do != "" {
				fmt.Fprintln(w, "    "+printable(strings.TrimSuffix(carry(f.Do), ".")))
			}
		}
	}
}
