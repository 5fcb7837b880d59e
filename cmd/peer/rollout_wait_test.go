package main

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
	"github.com/coveyproject/covey/taskstate"
)

// oneService is a peer with a service of one task, whose progress it tells.
type oneService struct {
	api.Backend
	tell func(ctx context.Context, send func(api.Progress) error) error
}

func (oneService) Failures(context.Context, string) (api.Failures, error) {
	return api.Failures{Groups: []api.Failure{{Message: "exit code 3", Earlier: 2, Peers: []api.PeerCount{{PeerName: "one"}}, Last: "no such config"}}}, nil
}

func (s oneService) Follow(ctx context.Context, _ string, _ bool, send func(api.Progress) error) error {
	return s.tell(ctx, send)
}

func TestAServiceCountsAsRunningOnceItsTasksHaveRunForAWhile(t *testing.T) {
	is := func(state string) api.Progress {
		return api.Progress{Job: api.Job{ID: jobID, Type: "service", Wanted: 1, Tasks: map[string]int{state: 1}}}
	}
	again, inLine := is("pending"), is("pending")
	again.Job.Waiting, inLine.Job.Waiting = "restart: the next attempt starts in 1s", "in line on one, where 2 of 2 cpus are busy"
	over, ended, code := is("failed"), time.Unix(1, 0), 1
	over.Job.State, over.Job.Ended, over.Job.ExitCode = "failed", &ended, &code
	for what, x := range map[string]struct {
		tell   []api.Progress
		breaks bool
		goesOn bool
		code   int
		proven bool // it takes as long as that does
		said   string
	}{
		"it goes on":             {tell: []api.Progress{is("pending"), is("running")}, proven: true, said: "1 of 1 tasks run"},
		"it fails at once":       {tell: []api.Progress{is("running"), over}, code: 1, said: "is over: failed"},
		"it is begun again":      {tell: []api.Progress{is("running"), is("pending"), is("running")}, proven: true, said: "1 of 1 tasks run"},
		"it cannot start":        {tell: []api.Progress{is("running"), again}, code: 1, proven: true, goesOn: true, said: "failed 2 × exit code 3 on one: no such config"},
		"it waits for room":      {tell: []api.Progress{again, inLine, is("running")}, proven: true, said: "1 of 1 tasks run"},
		"its peer is gone then":  {tell: []api.Progress{is("running")}, breaks: true},
		"it stops, and for good": {tell: []api.Progress{is("running"), is("pending"), over}, code: 1, said: "is over: failed"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			l, err := api.Listen(api.SocketPath(t.TempDir()))
			if err != nil {
				t.Fatal(err)
			}
			srv := &http.Server{Handler: api.NewHandler(oneService{tell: func(ctx context.Context, send func(api.Progress) error) error {
				for _, p := range x.tell {
					if err := send(p); err != nil {
						return err
					}
				}
				switch {
				case x.breaks:
					return api.Errorf(api.Failed, "this peer stops")
				case x.code == 0 || x.goesOn:
					<-ctx.Done()
				}
				return nil
			}}, nil)}
			gone := make(chan struct{})
			go func() { defer close(gone); _ = srv.Serve(l) }() // ends with Close
			defer func() { srv.Close(); <-gone }()
			var said bytes.Buffer
			began := time.Now()
			err = awaitRollout(t.Context(), client.New(l.Addr().String()), &said, jobID, &taskstate.Job{Update: &taskstate.Update{}})
			if x.breaks {
				if err == nil || !strings.Contains(err.Error(), "this peer stops") {
					t.Errorf("%v: %s", err, said.String())
				}
				return
			}
			var code exitError
			if errors.As(err, &code) != (x.code > 0) || int(code) != x.code || !strings.Contains(said.String(), x.said) {
				t.Errorf("%v: %s", err, said.String())
			}
			if took := time.Since(began); x.proven && took < proofTime {
				t.Errorf("it counts as running after %v", took)
			}
		})
	}
}
