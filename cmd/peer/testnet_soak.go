package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/testnet"
)

func testnetSoak(c *cli) *cobra.Command {
	cfg := testnet.SoakConfig{}
	cmd := &cobra.Command{
		Use:   "soak",
		Short: "Keep a cluster under load while its peers are hurt at random",
		Long: `Start a testnet, submit and cancel jobs through random peers, and meanwhile kill, pause (SIGSTOP),
stop (SIGTERM), slow down and cut off peers, the coordinator among them, at random from a seed. At
the end all peers are brought back, and a table says what became of all that was asked. It exits
with 0 only if nothing was lost, wrong or hung and all peers agree.`,
		Example: "  peer testnet soak --for 5m\n  peer testnet soak --for 1m --seed 7",
		Args:    exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := untilInterrupted(cmd.Context())
			defer cancel()
			if cfg.For < time.Second || cfg.Peers < 3 || cfg.Peers > testnet.MaxPeers {
				return api.Errorf(api.Usage, "--for needs at least 1s, and --peers 3 to %d", testnet.MaxPeers)
			}
			if !cmd.Flags().Changed("seed") {
				cfg.Seed = rand.Uint64N(1_000_000)
			}
			var err error
			if cfg.Exe, cfg.Dir, err = scratch(); err != nil {
				return err
			}
			cfg.Talk = c.Err
			replay := fmt.Sprintf("peer testnet soak --for %s --seed %d", cfg.For, cfg.Seed) + typed(cmd, "peers")
			fmt.Fprintf(c.Err, "seed %d; again with:  %s\n", cfg.Seed, replay)
			r, err := testnet.Soak(ctx, cfg)
			if err != nil {
				return err
			}
			if err := emit(c, nil, r, []testnet.SoakReport{r}, func(w io.Writer) { soakTable(r).write(w) }); err != nil {
				return err
			}
			if r.OK() && r.Kept != "" {
				fmt.Fprintf(c.Err, "the peers' folders and logs are in %s\n", r.Kept)
			}
			if !r.OK() {
				return api.Errorf(api.Failed, "%d things are not as they must be (above); the peers' folders and logs are in %s; again with: %s", len(r.Trouble), r.Kept, replay)
			}
			return nil
		},
	}
	f := cmd.Flags()
	durationVar(f, &cfg.For, "for", 5*time.Minute, "hurt them for so long (`D`)")
	f.Uint64Var(&cfg.Seed, "seed", 0, "draw the faults and jobs from `N` (default: a random one, printed)")
	f.IntVarP(&cfg.Peers, "peers", "n", 5, "how many peers")
	f.BoolVar(&cfg.Keep, "keep", false, "keep the peers' folders also if all is well")
	f.BoolVar(&cfg.Debug, "verbose", false, "let the peers log what they do")
	return cmd
}

func soakTable(r testnet.SoakReport) *grid {
	t := table("WHAT", "VALUE")
	secs := func(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) + " s" }
	var hurts []string
	for what, n := range r.Hurts {
		hurts = append(hurts, fmt.Sprintf("%s %d", what, n))
	}
	slices.Sort(hurts)
	t.add("seed", strconv.FormatUint(r.Seed, 10))
	t.add("peers", strconv.Itoa(r.Peers))
	t.add("hurt", secs(r.Seconds)+": "+strings.Join(hurts, ", "))
	t.add("jobs accepted", fmt.Sprintf("%d (%d held first, %d cancelled)", r.Accepted, r.Held, r.Cancels))
	t.add("lost", strconv.Itoa(r.Lost))
	t.add("wrong", strconv.Itoa(r.Wrong))
	t.add("processes run", strconv.Itoa(r.Runs))
	t.add("double runs, replace_after", strconv.Itoa(r.Again))
	t.add("double runs, wait", strconv.Itoa(r.Twice))
	t.add("files fetched and compared", fmt.Sprintf("%d (%d tasks without all copies)", r.Files, r.Owed))
	t.add("processes left over", strconv.Itoa(r.Strays))
	t.add("commands that hung", strconv.Itoa(r.Hung))
	t.add("longest without coordinator", fmt.Sprintf("%s (%.0f s after the start)", secs(r.NoBoss), r.NoBossAt))
	t.add("slowest command", fmt.Sprintf("%s (%s)", secs(r.Slowest), r.SlowWhat))
	t.add("all ended and all agree after", secs(r.Settled))
	return t
}
