package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
)

func traceCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "trace JOB",
		Short: "Print when and where a job's tasks ran, for Perfetto",
		Long: `Print when and where a job's tasks ran as a trace that https://ui.perfetto.dev and chrome://tracing
open: a process for each peer, a thread for each task that ran at once there, a slice for each
attempt that is remembered. What still runs is drawn up to now. Times are those of the peers' own
clocks. What never ran is not in it.`,
		Example: "  peer trace last >trace.json",
		Args:    exactly(1, "a job: its id, a unique prefix, its name, or `last`"),
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := stretchesOf(cmd.Context(), c.client(), args[0], time.Now())
			if err != nil {
				return err
			}
			w := bufio.NewWriter(c.Out)
			if err := writeTrace(w, all); err != nil {
				return err
			}
			return w.Flush()
		},
	}
}

// stretch is one attempt that ran: on a peer, from one time to another.
type stretch struct {
	task     api.Task
	from, to time.Time
	lane     int // of the peer: no two of one lane overlap
}

// stretchesOf lists the attempts of a job that ran, by their begin.
func stretchesOf(ctx context.Context, c *client.Client, job string, now time.Time) ([]stretch, error) {
	var all []stretch
	err := c.EachTask(ctx, job, true, func(t api.Task) error {
		if s, ran := stretchOf(t, now); ran {
			all = append(all, s)
		}
		return nil
	})
	slices.SortStableFunc(all, func(a, b stretch) int { return a.from.Compare(b.from) })
	lanes(all)
	return all, err
}

func stretchOf(t api.Task, now time.Time) (s stretch, ran bool) {
	switch {
	case t.State == "running" && !t.At.IsZero():
		return stretch{task: t, from: t.At, to: later(t.At, now)}, true
	case t.Took > 0:
		return stretch{task: t, from: t.At.Add(-time.Duration(t.Took * float64(time.Second))), to: t.At}, true
	}
	return stretch{}, false
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// lanes gives each stretch, in order of their begins, the first lane of its peer that is free by
// then.
func lanes(all []stretch) {
	busy := map[string][]time.Time{} // until when, by peer and lane
	for i := range all {
		s := &all[i]
		ends := busy[s.task.Peer]
		s.lane = slices.IndexFunc(ends, func(end time.Time) bool { return !end.After(s.from) })
		if s.lane < 0 {
			s.lane = len(ends)
			ends = append(ends, s.to)
		}
		ends[s.lane] = s.to
		busy[s.task.Peer] = ends
	}
}

// traceEvent is one event of the Trace Event Format: ph X is a slice, M names a process. Times are
// in microseconds.
type traceEvent struct {
	Name string         `json:"name"`
	Kind string         `json:"cat,omitempty"`
	Ph   string         `json:"ph"`
	At   int64          `json:"ts"`
	Dur  int64          `json:"dur,omitempty"`
	PID  int            `json:"pid"`
	TID  int            `json:"tid"`
	Args map[string]any `json:"args,omitempty"`
}

func writeTrace(w io.Writer, all []stretch) error {
	peers, began := map[string]int{}, false
	put := func(e traceEvent) error {
		b, err := json.Marshal(e)
		if err != nil {
			return err
		}
		before := ",\n"
		if !began {
			before, began = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n", true
		}
		_, err = fmt.Fprintf(w, "%s%s", before, b)
		return err
	}
	for _, s := range all {
		t := s.task
		pid, known := peers[t.Peer]
		if !known {
			pid = len(peers) + 1
			peers[t.Peer] = pid
			if err := put(traceEvent{Name: "process_name", Ph: "M", PID: pid, Args: map[string]any{"name": t.PeerName}}); err != nil {
				return err
			}
		}
		args := map[string]any{"state": t.State, "waited_s": t.Waited}
		for name, v := range map[string]string{"item": t.Item, "reason": t.Reason, "message": t.Message} {
			if v != "" {
				args[name] = v
			}
		}
		if t.ExitCode != nil {
			args["exit_code"] = *t.ExitCode
		}
		short := api.ShortTask(t.Called())
		if err := put(traceEvent{
			Name: short, Kind: t.State, Ph: "X", At: s.from.UnixMicro(), Dur: max(1, s.to.Sub(s.from).Microseconds()), PID: pid, TID: s.lane + 1, Args: args,
		}); err != nil {
			return err
		}
	}
	if !began {
		_, err := fmt.Fprintln(w, `{"traceEvents":[]}`)
		return err
	}
	_, err := fmt.Fprintln(w, "\n]}")
	return err
}
