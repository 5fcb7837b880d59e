//go:build unix

package main

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/jobfile"
)

// scriptSubmitAs submits a no-op job with an id of the script's choosing, which the API allows.
func scriptSubmitAs(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "submitas NAME ID [JOBNAME]")
	job := taskstate.Job{ID: taskstate.JobID(args[1]), Name: strings.Join(args[2:], ""), Run: taskstate.Run{Noop: &taskstate.Noop{}}}
	jobfile.Defaults(&job)
	c := client.Of(filepath.Join(scriptProcesses(ts).work, args[0]))
	defer c.Close()
	_, err := c.Submit(context.Background(), api.Submit{Job: job})
	ts.Check(err)
}
