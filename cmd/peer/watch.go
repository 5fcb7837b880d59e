package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
)

func watchCommand(c *cli) *cobra.Command {
	var (
		since     string
		bookmarks bool
	)
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Events as JSON lines, as they happen",
		Long: `Events as JSON lines: jobs accepted, changed and ended (updated, the states of a rollout, slots
renewed, retired or grown), every task's states, peers coming and going, coordinators. Each line
has a token; --since TOKEN goes on after it. When the peer restarts, watching goes on as soon as
it is back, and tells nothing again that it has told.

Where events may be missing – the token is too old, or of another peer or start – a line of kind
"snapshot" says why, lines with "snapshot": true list how things stand, and "synced" ends them:
what was not listed is not there any more.`,
		Example: "  peer watch | jq -r 'select(.kind==\"task\" and .state==\"failed\")'",
		Args:    exactly(0, ""),
		RunE: untilCtrlC(func(cmd *cobra.Command, _ []string) error {
			w := watching{Streams: c.Streams, client: c.client(), token: since, bookmarks: bookmarks}
			return w.run(cmd.Context())
		}),
	}
	cmd.Flags().BoolVar(&bookmarks, "bookmarks", false, "print a line from time to time when nothing happens, with the newest token")
	cmd.Flags().StringVar(&since, "since", "", "go on after the event with this `TOKEN`")
	return cmd
}

// A watch whose peer does not answer asks again after a wait that doubles, and begins with the
// short one again when it has been answered. To ask a socket that nobody serves costs nothing: it
// goes on within a second of its peer's return.
const (
	watchRetryFirst = 200 * time.Millisecond
	watchRetryMost  = 900 * time.Millisecond
)

// watching follows events across the ends of streams and restarts of the peer.
type watching struct {
	Streams
	client    *client.Client
	token     string // of the newest event
	bookmarks bool
	heard     bool // the peer has answered once
	answered  bool // in this stream
	told      bool // that it does not answer now
	once      api.Once
}

// errPrint is that stdout cannot be written: nobody reads any more.
type errPrint struct{ error }

func (w *watching) run(ctx context.Context) error {
	for wait := watchRetryFirst / 2; ; {
		begin := time.Now()
		w.answered = false
		err := w.client.Watch(ctx, w.token, w.print)
		var gone errPrint
		switch {
		case errors.As(err, &gone):
			return gone.error
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && time.Since(begin) > time.Second:
			continue // streams end by themselves, and are resumed
		case err != nil && !w.heard, err != nil && !again(err):
			return err
		}
		if err != nil && !w.told {
			w.told = true
			fmt.Fprintf(w.Err, "%v; watching goes on when it answers\n", err)
		}
		wait = nextRetry(wait, w.answered)
		if err := pause.For(ctx, wait/2+rand.N(wait/2)); err != nil {
			return err
		}
	}
}

// nextRetry is how long to wait before the peer is asked again, after a stream it answered, or one
// that came to nothing.
func nextRetry(last time.Duration, answered bool) time.Duration {
	if answered {
		return watchRetryFirst
	}
	return min(2*last, watchRetryMost)
}

// again tells whether asking later may help.
func again(err error) bool {
	switch api.AsError(err).Code {
	case api.NoCoordinator, api.TimedOut:
		return true
	}
	return false
}

func (w *watching) print(e api.Event) error {
	w.heard, w.answered, w.told = true, true, false
	if e.Token != "" {
		w.token = e.Token
	}
	if e.Kind == "end" || e.Kind == "bookmark" && !w.bookmarks || !w.once.First(e) {
		return nil
	}
	if err := writeLine(w.Out, e); err != nil {
		return errPrint{err}
	}
	return nil
}
