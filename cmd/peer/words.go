package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// groups are the commands that `peer --help` lists; --all adds the others.
var groups = []struct {
	title    string
	commands string
}{
	{"This machine", "up down status doctor service trust"},
	{"The cluster", "ticket peers drain activate remove"},
	{"Start jobs", "run submit"},
	{"Ask about them", "jobs job tasks logs wait explain top web"},
	{"Change them", "cancel retry scale rollback"},
	{"Files", "put get"},
}

// group puts commands into their groups, and help into the shape for that.
func group(root *cobra.Command) {
	var all bool
	root.Flags().BoolVar(&all, "all", false, "with --help: list all commands")
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title + ":"})
		for _, cmd := range root.Commands() {
			if slices.Contains(strings.Fields(g.commands), cmd.Name()) {
				cmd.GroupID = g.title
			}
		}
	}
	root.SetUsageTemplate(strings.NewReplacer(
		"{{if not .AllChildCommandsHaveGroup}}", `{{if not (.Flags.Changed "all")}}

More commands: {{.CommandPath}} --help --all{{else}}`,
		"Additional Commands:", "More commands:",
	).Replace(root.UsageTemplate()))
}

// calledHere says what a command is called here that other programs have by another name.
var calledHere = wordByWord(map[string]string{
	"ps ls list queue squeue qstat bjobs":                     "`peer jobs`, and of one job `peer tasks JOB`",
	"history sacct":                                           "`peer jobs --limit 0`",
	"nodes node members machines hosts sinfo cluster workers": "`peer peers`",
	"rm kill stop delete scancel qdel bkill abort terminate":  "`peer cancel JOB`",
	"shutdown quit exit":                                      "`peer down`",
	"stats monitor htop":                                      "`peer top`; numbers for programs: `peer metrics`",
	"dashboard ui":                                            "`peer web`",
	"events":                                                  "`peer watch`",
	"inspect describe show scontrol":                          "`peer job JOB`; of this peer `peer status`",
	"info":                                                    "`peer status`",
	"why":                                                     "`peer explain JOB`",
	"health check":                                            "`peer doctor`",
	"exec ssh":                                                "`peer run --constraint 'peer.name == NAME' -- COMMAND`, a task of its own there",
	"attach output":                                           "`peer logs -f JOB`",
	"cp scp copy":                                             "`peer put PATH` and `peer get NAME`; files of a job: --in and --out of `peer run`",
	"upload push":                                             "`peer put PATH`",
	"download pull fetch":                                     "`peer get JOB`",
	"start srun launch parallel":                              "`peer run -- COMMAND`",
	"sbatch qsub bsub batch":                                  "`peer run --detach -- COMMAND`, or `peer submit FILE`",
	"apply deploy create update stack":                        "`peer submit FILE`",
	"crontab cron schedule":                                   "`peer submit FILE`, with schedule: in the file",
	"restart rerun resubmit":                                  "`peer retry JOB`",
	"undo revert":                                             "`peer rollback JOB`",
	"join":                                                    "`peer up --join TICKET`",
	"init":                                                    "`peer up`",
	"invite":                                                  "`peer ticket`",
	"install uninstall":                                       "`peer service`",
	"cordon":                                                  "`peer pause NAME`",
	"uncordon undrain resume":                                 "`peer activate NAME`",
	"evict":                                                   "`peer remove NAME`",
	"config settings":                                         "`peer set`",
	"du storage":                                              "`peer df`",
})

func wordByWord(lists map[string]string) map[string]string {
	out := map[string]string{}
	for words, here := range lists {
		for word := range strings.FieldsSeq(words) {
			out[word] = here
		}
	}
	return out
}

// flagHere is what flags are called here that other programs have by another name.
var flagHere = map[string]string{
	"mem": "memory", "ram": "memory", "cores": "cpus", "cpus-per-task": "cpus", "ntasks": "array", "retries": "restart", "workdir": "dir", "cwd": "dir", "chdir": "dir",
	"mount": "in", "volume": "in", "input": "in", "bg": "detach", "background": "detach", "jobs": "parallel", "concurrency": "parallel", "max-procs": "parallel",
	"interactive": "stdin", "lines": "tail", "walltime": "timeout", "time": "timeout", "host": "constraint", "node": "constraint", "nodelist": "constraint",
	"environment": "env", "watch": "follow", "dependency": "after", "depends-on": "after",
}
