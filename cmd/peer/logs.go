package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
)

func logsCommand(c *cli) *cobra.Command {
	var (
		q      api.LogQuery
		f      logsFlags
		prefix bool
	)
	cmd := &cobra.Command{
		Use:   "logs ID…",
		Short: "A job's output, from whichever peer has it",
		Example: `  peer logs last
  peer logs -f last
  peer logs frames.17                 item 17 of an array, else slot 17; or --task 17
  peer logs last.17.2 --stream stderr  its second attempt
  peer logs -f web probe              of both as it comes, each line with its task
  peer logs --tail 20 -f web           its last 20 lines, and what follows
  peer logs --since 10m --timestamps web`,
		Args: atLeastOne("a job or task: its id, a unique prefix, its name, or `last`"),
		RunE: untilCtrlC(func(cmd *cobra.Command, args []string) error {
			if err := f.into(&q, cmd.Flags(), time.Now()); err != nil {
				return err
			}
			args, err := f.of(args)
			if err != nil {
				return err
			}
			if !q.Follow {
				c.noteNamesakes(cmd.Context(), args...)
			}
			var p *prefixer
			if prefix || !cmd.Flags().Changed("prefix") && followsMany(cmd.Context(), c.client(), args, q) {
				p = newPrefixer()
			}
			if q.Times {
				p = timed(p)
			}
			return allLogs(cmd.Context(), c, args, q, p)
		}),
	}
	cmd.Flags().BoolVarP(&q.Follow, "follow", "f", false, "follow until the tasks end")
	cmd.Flags().BoolVar(&prefix, "prefix", false, "begin each line with its task (default with -f of several tasks; --prefix=false: never)")
	cmd.Flags().StringVar(&f.task, "task", "", "only the task `N`: JOB.N")
	f.register(cmd.Flags(), &q)
	return cmd
}

// followsMany tells whether output of several tasks comes at once.
func followsMany(ctx context.Context, cl *client.Client, ids []string, q api.LogQuery) bool {
	if !q.Follow || len(ids) > 1 || strings.Contains(ids[0], ".") {
		return q.Follow && len(ids) > 1
	}
	a, err := cl.Job(ctx, ids[0])
	return err == nil && max(a.Job.Count, a.Job.Wanted) > 1
}

// allLogs shows the output of several jobs or tasks: of each at once if they are followed, else of
// one after the other.
func allLogs(ctx context.Context, c *cli, ids []string, q api.LogQuery, prefix *prefixer) error {
	if !q.Follow || len(ids) == 1 {
		return c.eachOf(ids, func(id string) error { return logs(ctx, c, id, q, prefix) })
	}
	var wg sync.WaitGroup
	errs := make([]error, len(ids))
	for i, id := range ids {
		wg.Go(func() { errs[i] = logs(ctx, c, id, q, prefix) })
	}
	wg.Wait()
	return c.eachOf(ids, func(id string) error { return errs[slices.Index(ids, id)] })
}

func logs(ctx context.Context, c *cli, id string, q api.LogQuery, prefix *prefixer) error {
	var failed api.Code
	a := &attached{Streams: c.Streams, prefix: prefix}
	err := c.client().Logs(ctx, id, q, func(ch api.LogChunk) error {
		switch {
		case ch.Error == nil:
		case ch.Error.Code == api.Refused && failed != api.NoCoordinator:
			failed = api.Refused
		default:
			failed = api.NoCoordinator
		}
		return a.chunk(ch)
	})
	if err == nil && failed != "" {
		return api.Errorf(failed, "not all output could be had; see `peer tasks %s` and `peer peers`", id)
	}
	if err != nil {
		return fmt.Errorf("logs of %s: %w", id, err)
	}
	return nil
}
