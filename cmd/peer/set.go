package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate/spell"
)

func setCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "set [NAME=VALUE]…",
		Short: "Show or change settings of the whole cluster, while it runs",
		Long: `Show the settings of the whole cluster, or change some. A change applies to every
peer at once, without restarts and without losing sessions.

  beat       how often each peer reports to the coordinator: 100ms to 1m (default 1s)
  grace      after how long without one its session is over, and gossip decides whether it is
             unreachable: 2 beats to 10m (default 3 beats)

  keep-for   how long finished jobs are kept: 1s to ten years (default 168h)
  keep-jobs  and how many of them: 1 to 100000 (default: as many as end in a week; of older ones
             1000). Jobs beyond either limit are deleted at once, with their output; ` + "`peer pin`" + `
             keeps single jobs

  require-orders  on: jobs and acts that nobody signed are refused (the default of clusters founded
             by this version). Switch it on in an older cluster once all its peers are upgraded

  time       now, or a moment as in 2026-03-01T12:00:00Z: sets the time that decisions are stamped
             with back, after a wrong clock took it ahead. What was stamped later is stamped with
             that moment; requests signed before it no longer count. Set the wrong clock right
             first. Jobs that were deleted too early stay deleted, and are listed

On slow or lossy networks use a longer grace; a shorter one notices sooner that a peer hangs.`,
		Example: "  peer set\n  peer set beat=2s grace=10s\n  peer set keep-jobs=5000 keep-for=720h\n  peer set require-orders=on\n  peer set time=now",
		Args:    func(*cobra.Command, []string) error { return nil },
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := settingsOf(args)
			if err != nil {
				return err
			}
			ask := c.client().Settings
			if len(args) > 0 {
				ask = func(ctx context.Context) (api.SettingsAnswer, error) { return c.client().Set(ctx, s) }
			}
			a, err := ask(cmd.Context())
			return emit(c, err, a, []api.Settings{a.Settings}, func(w io.Writer) {
				fmt.Fprintf(w, "beat       %s\ngrace      %s\nkeep-jobs  %d\nkeep-for   %s\nrequire-orders  %s\n",
					seconds(a.Settings.Beat), seconds(a.Settings.Grace), a.Settings.KeepJobs, seconds(a.Settings.KeepFor), a.Settings.RequireOrders)
				if a.Ahead > 0 {
					fmt.Fprintf(w, "ledger time is %s ahead of this machine's clock\n", seconds(math.Round(a.Ahead)))
				}
				if len(a.Deleted) > 0 {
					fmt.Fprintf(w, "deleted too early: %s\n", strings.Join(a.Deleted, " "))
				}
			})
		},
	}
}

func settingsOf(words []string) (s api.Settings, err error) {
	names := []string{"beat", "grace", "keep-jobs", "keep-for", "require-orders", "time"}
	fields := map[string]*float64{"beat": &s.Beat, "grace": &s.Grace, "keep-for": &s.KeepFor}
	for _, w := range words {
		name, text, ok := strings.Cut(w, "=")
		field := fields[name]
		if ok && name == "keep-jobs" {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 || s.KeepJobs != 0 {
				return s, api.Errorf(api.Usage, "%q: expected a whole number from 1, once", w)
			}
			s.KeepJobs = n
			continue
		}
		if ok && name == "require-orders" {
			if text != "on" && text != "off" || s.RequireOrders != "" {
				return s, api.Errorf(api.Usage, "%q: expected on or off, once", w)
			}
			s.RequireOrders = text
			continue
		}
		if ok && name == "time" {
			if s.Time, err = momentOf(text, s.Time); err != nil {
				return s, api.Errorf(api.Usage, "%q: %v", w, err)
			}
			continue
		}
		if !ok || field == nil {
			msg := fmt.Sprintf("%q: expected NAME=VALUE with %s", w, strings.Join(names, ", "))
			if near := spell.Nearest(name, names); near != "" && near != name {
				msg += fmt.Sprintf("; did you mean %s?", near)
			}
			return s, api.Errorf(api.Usage, "%s; see `peer set --help`", msg)
		}
		d, err := spell.Duration(text)
		switch {
		case err != nil:
			return s, api.Errorf(api.Usage, "%q: %v", w, err)
		case d == 0:
			return s, api.Errorf(api.Usage, "%q: expected a duration above 0, as in 2s or 500ms", w)
		case *field != 0:
			return s, api.Errorf(api.Usage, "%q: %s is set twice", w, name)
		}
		*field = d.Seconds()
	}
	return s, nil
}

// momentOf reads the time that the ledger is set to, which was not given before.
func momentOf(text string, before time.Time) (time.Time, error) {
	if !before.IsZero() {
		return before, errors.New("time is set twice")
	}
	if text == "now" {
		return time.Now(), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, errors.New("expected now, or a moment as in 2026-03-01T12:00:00Z")
	}
	return at, nil
}
