package main

import (
	"fmt"
	"strings"

	"github.com/coveyproject/covey/node/api"
)

// exitMeanings are what exit codes say, for people.
var exitMeanings = []struct{ code, what string }{
	{"0", "done; a task: it ended with 0, and of many tasks all did"},
	{own(api.Failed), "failed; of many tasks some did not end with 0; an update was paused or turned back; one task that ended without a code of its own; not all files could be had"},
	{own(api.Usage), "usage: the command line or a job file is wrong"},
	{own(api.NotFound), "not found: no such job, task, peer, ticket"},
	{own(api.NoCoordinator), "no coordinator, or no contact with the peer"},
	{own(api.TimedOut), "timed out"},
	{own(api.Conflict), "conflict: not possible in the current state; another file is there already"},
	{own(api.Refused), "refused: not allowed"},
	{fmt.Sprint(interruptCode), "Ctrl-C"},
	{fmt.Sprintf("%d, %d", brokenPipeCode, terminateCode), "`run` was ended: its output's pipe has no reader any more; SIGTERM"},
}

// taskMeanings are those of run, wait and submit --wait, beside the task's own code.
var taskMeanings = []struct{ code, what string }{
	{fmt.Sprint(waitTimedOut), "timed out: the task, or `wait` (then the job goes on)"},
	{fmt.Sprint(ownFailure), "Covey's own failure, with any reason above; output was cut or lost; stdin did not arrive whole; results could not be written; files did not come home"},
	{"126, 127", "the command cannot be executed, or was not found on that peer"},
	{"128+n", "the task was ended by signal n: 137 is SIGKILL, 143 SIGTERM"},
}

func own(c api.Code) string { return fmt.Sprint((&api.Error{Code: c}).Exit()) }

// exitCodes is the page about them.
func exitCodes() string {
	var b strings.Builder
	b.WriteString("# Exit codes\n\nMade from the table in `cmd/peer/exit_codes.go`; do not edit it here.\n\n| code | |\n|---|---|\n")
	for _, m := range exitMeanings {
		fmt.Fprintf(&b, "| %s | %s |\n", m.code, m.what)
	}
	b.WriteString("\n`run`, `wait` and `submit --wait` exit with the task's code. Their own codes, as in shells and timeout(1):\n\n| code | |\n|---|---|\n")
	for _, m := range taskMeanings {
		fmt.Fprintf(&b, "| %s | %s |\n", m.code, m.what)
	}
	b.WriteString("\nWith `-o json` an error is a line of JSON on stderr, `{\"error\": {\"code\", \"message\"}}`:\n\n| code in JSON | exit code |\n|---|---|\n")
	for _, c := range api.Codes() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", c, own(c))
	}
	return b.String()
}
