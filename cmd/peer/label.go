package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/node/api"
)

func labelCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "label PEER [K=V | K-]…",
		Short: "Show, set or remove labels of a peer",
		Long: `Set labels of a peer (K=V) or remove them (K-), and print those it has then. They lie over
what the peer says of itself (` + "`peer up --label`" + `) and stay until they are changed again. A label
that is taken away does not count, whoever it comes from.

Constraints of jobs ask for them, as in "peer.label.zone == west". Tasks of services that do not
fit any more move elsewhere, tasks of batch jobs finish where they are, and what waited for the
label starts at once.

PEER is an id, a unique part of one, a name, or ` + "`self`" + `: the peer that is asked. A name of a label
is letters, digits and . _ - /.`,
		Example: `  peer label laptop zone=west disk=ssd
  peer label laptop disk-
  peer label self
  peer run --constraint 'peer.label.zone == west' -- hostname`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && !slices.Contains(args, "") {
				return nil
			}
			return exactly(1, whichPeer)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := labelWords(args[1:])
			if err != nil {
				return err
			}
			var p api.PeerAnswer
			if len(args) == 1 {
				p, err = c.client().Peer(cmd.Context(), args[0])
			} else {
				p, err = c.client().SetLabels(cmd.Context(), args[0], l)
			}
			return emit(c, err, p, []api.Peer{p.Peer}, func(w io.Writer) {
				for _, k := range slices.Sorted(maps.Keys(p.Peer.Labels)) {
					fmt.Fprintf(w, "%s=%s\n", k, p.Peer.Labels[k])
				}
			})
		},
	}
}

func labelWords(words []string) (l api.Labels, err error) {
	for _, w := range words {
		k, v, set := strings.Cut(w, "=")
		gone, unset := strings.CutSuffix(w, "-")
		switch {
		case set:
			if l.Set == nil {
				l.Set = map[string]string{}
			}
			if was, twice := l.Set[k]; twice && was != v {
				return l, api.Errorf(api.Usage, "%s: %s is set to two values", w, k)
			}
			l.Set[k] = v
		case unset:
			l.Unset = append(l.Unset, gone)
		default:
			return l, api.Errorf(api.Usage, "%q: expected K=V to set a label, or K- to remove it, as in zone=west disk-", w)
		}
	}
	return l, nil
}

func labelsText(labels map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		out = append(out, k+"="+labels[k])
	}
	return orDash(strings.Join(out, ","))
}

// offersText says of each named count how many are promised and how many there are.
func offersText(p api.Peer) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(p.Offers)) {
		out = append(out, fmt.Sprintf("%s %d/%d", k, p.OffersUsed[k], p.Offers[k]))
	}
	return orDash(strings.Join(out, ", "))
}
