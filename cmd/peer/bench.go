package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/testnet"
)

func benchCommand(c *cli) *cobra.Command {
	var (
		cfg  testnet.BenchConfig
		only string
	)
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure: tasks per second, latency, time to recover, what a peer costs",
		Long: `Measure the cluster of this machine's peer, or with --testnet N a fresh one of N local processes:
no-op and /bin/true tasks per second, one task from submit to done, files from one peer to another
beside a plain copy over TCP, kill -9 of coordinator, worker and both until work goes on, how fast a
status is on every peer, and what an idle peer costs. Files, kills, spread and costs are only
measured on a testnet.`,
		Example: "  peer bench --testnet 3\n  peer bench --testnet 3 --quick -o json\n  peer bench --testnet 3 --only noop,latency",
		Args:    exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := untilInterrupted(cmd.Context())
			defer cancel()
			if only != "" {
				cfg.Only = strings.Split(only, ",")
			}
			for _, part := range cfg.Only {
				if !slices.Contains(testnet.BenchParts(), part) {
					return api.Errorf(api.Usage, "--only %q: there is no such part; expected some of %s", part, strings.Join(testnet.BenchParts(), ","))
				}
			}
			r, err := bench(ctx, c, cfg)
			return emit(c, err, r, r.Measures, func(w io.Writer) { benchTable(r).write(w) })
		},
	}
	f := cmd.Flags()
	f.IntVar(&cfg.Peers, "testnet", 0, "start `N` local peers and measure those")
	f.BoolVar(&cfg.Quick, "quick", false, "fewer repetitions and no job of 100,000")
	f.IntVar(&cfg.Rounds, "rounds", 0, "repetitions of each rate and kill (default 3)")
	f.StringVar(&only, "only", "", "only these `PARTS`: "+strings.Join(testnet.BenchParts(), ","))
	return cmd
}

func bench(ctx context.Context, c *cli, cfg testnet.BenchConfig) (testnet.Report, error) {
	if cfg.Peers < 0 || cfg.Peers > testnet.MaxPeers {
		return testnet.Report{}, api.Errorf(api.Usage, "--testnet needs 1 to %d peers", testnet.MaxPeers)
	}
	exe, dir, err := scratch()
	if err != nil {
		return testnet.Report{}, err
	}
	defer os.RemoveAll(dir)
	cfg.Exe, cfg.Dir, cfg.Talk, cfg.Client = exe, dir, c.Err, c.client()
	return testnet.Bench(ctx, cfg)
}

func benchTable(r testnet.Report) *grid {
	t := table("WHAT", "MEDIAN", "P99", "MAX", "UNIT", "N")
	num := func(v float64) string {
		if v == 0 {
			return "-"
		}
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
	for _, m := range r.Measures {
		t.add(m.Name, num(m.Value), num(m.P99), num(m.Max), m.Unit, strconv.Itoa(m.N))
	}
	t.add(fmt.Sprintf("(%d peers, %d cpus, %s/%s, %s)", r.Peers, r.CPUs, r.OS, r.Arch, r.Go), "", "", "", "", "")
	return t
}
