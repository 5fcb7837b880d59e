package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
)

type cli struct {
	Streams
	data   string
	output string

	outputFromEnv bool
}

// exitError ends a command with the code of a task instead of one of Covey's own. Nothing is
// printed for it.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit %d", int(e)) }

// speaksForTask marks commands whose exit code is the task's: Covey's own failure is then 125.
const speaksForTask = "speaks-for-task"

// ownFailure is what such a command exits with when Covey itself fails, usage included.
const ownFailure = 125

const rootLong = `Run commands on whichever of your machines are up, across networks, and bring back their output,
exit codes and files – with no server to keep alive and no shared disk.

  peer up                                make this machine a peer; the first one founds a cluster
  peer ticket                            invite another machine (prints one line)
  peer up --join covey1…                 … there
  peer run -- uname -a                   run a command on some peer, exit with its code
  peer run --array 1-100 -- echo {}      a hundred of them
  peer run --in . --out '*.o' -- make    with this folder's files, and what it makes comes home
  peer submit web.yaml                   a job file: also services, and updates of them
  peer peers                             who is here

Every command works on every peer. Results go to stdout, messages to stderr.

A job is named by its id, the unique beginning of one, its name, or ` + "`last`" + `, the newest submitted
through this peer. Of several jobs of one name, cancel, scale, rollout and logs -f mean the one that
is not over; the others mean the newest.

Exit codes: 0 done · 1 failed · 2 usage · 3 not found · 4 no coordinator or no contact ·
5 timed out · 6 conflict · 7 refused · 130 Ctrl-C. run, wait and submit --wait exit with the task's
code instead (125: Covey's own failure).`

func (c *cli) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "peer",
		Short:         "Run commands on whichever of your machines are up",
		Long:          rootLong,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			if c.output != tableFormat && !c.outputFromEnv {
				return api.Errorf(api.Usage, "no command; see `peer --help`")
			}
			return cmd.Help()
		},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := fromEnvironment(cmd); err != nil {
				return err
			}
			if err := checkData(cmd, c.data); err != nil {
				return err
			}
			c.carryHints(cmd)
			return c.checkOutputFormat(cmd)
		},
	}
	root.SetOut(c.Out)
	root.SetErr(c.Err)
	root.SetIn(c.In)
	root.PersistentFlags().StringVar(&c.data, "data", defaultData(), "this peer's data folder (`DIR`; environment PEER_DATA)\nLinux ~/.local/state/covey, macOS ~/Library/Application Support/covey,\nWindows %LocalAppData%\\covey")
	root.PersistentFlags().StringVarP(&c.output, "output", "o", tableFormat, "`FORMAT` of what is listed: table, json, jsonl (environment PEER_OUTPUT)")
	root.SetFlagErrorFunc(wrongFlag)
	root.Version = version()
	root.SetVersionTemplate(versionLine() + "\n")
	root.SetHelpCommand(helpCommand())
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages ", ".FlagUsagesWrapped 100 "))
	root.AddCommand(
		upCommand(c), downCommand(c), statusCommand(c), doctorCommand(c), ticketCommand(c), removeCommand(c), leaveCommand(c), thawCommand(c), peersCommand(c),
		drainCommand(c), pauseCommand(c), activateCommand(c), labelCommand(c), rolesCommand(c), keyCommand(c), trustCommand(c), auditCommand(c), metricsCommand(c), traceCommand(c), setCommand(c),
		putCommand(c), getCommand(c), unputCommand(c), dfCommand(c),
		runCommand(c), submitCommand(c), jobsCommand(c), jobCommand(c), tasksCommand(c), explainCommand(c), logsCommand(c), waitCommand(c),
		cancelCommand(c), retryCommand(c), scaleCommand(c), rolloutCommand(c), rollbackCommand(c), rebalanceCommand(c), triggerCommand(c), renewCommand(c), pinCommand(c), unpinCommand(c),
		watchCommand(c), topCommand(c), recoverCommand(c), testnetCommand(c), benchCommand(c), webCommand(c), apiCommand(c), tokenCommand(c), versionCommand(c), serviceCommand(c), referenceCommand(),
	)
	root.SuggestionsMinimumDistance = 2 // typing errors in a command's name that are still recognised
	offerWords(c, root)
	group(root)
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			cmd.RunE = func(cmd *cobra.Command, args []string) error {
				if len(args) > 0 {
					return api.Errorf(api.Usage, "no completion for %q: expected bash, zsh, fish or powershell", args[0])
				}
				return cmd.Help()
			}
			cmd.Args = cobra.ArbitraryArgs
		}
	}
	return root
}

// fromEnvironment gives every flag that was not typed the value of PEER_<FLAG>, if there is one. A
// value that does not parse is reported like a typed one.
func fromEnvironment(cmd *cobra.Command) error {
	if cmd.Name() != "up" && cmd.Parent() != nil {
		return setFromEnvironment(cmd.InheritedFlags())
	}
	return errors.Join(setFromEnvironment(cmd.Flags()), setFromEnvironment(cmd.InheritedFlags()))
}

func setFromEnvironment(flags *pflag.FlagSet) (err error) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed || f.Name == "help" {
			return
		}
		name := "PEER_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if v, ok := os.LookupEnv(name); ok && v != "" {
			if wrong := flags.Set(f.Name, v); wrong != nil {
				err = errors.Join(err, api.Errorf(api.Usage, "the environment's %s: %v", name, wrong))
			}
			mark(f, fromEnv)
		}
	})
	return err
}

func unknownCommand(cmd *cobra.Command, name string) error {
	msg := fmt.Sprintf("unknown command %q", name)
	if here := calledHere[name]; here != "" {
		return api.Errorf(api.Usage, "%s: here it is %s", msg, here)
	}
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		msg += fmt.Sprintf(" (did you mean %s?)", strings.Join(near, " or "))
	}
	return api.Errorf(api.Usage, "%s; see `peer --help`", msg)
}

// helpCommand is cobra's, but for a subject that does not exist: that is a mistake, not a success.
func helpCommand() *cobra.Command {
	var all bool
	help := &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about any command",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || about == nil || len(rest) > 0 || about == cmd.Root() && len(args) > 0 {
				return unknownCommand(cmd.Root(), strings.Join(args, " "))
			}
			about.InitDefaultHelpFlag()
			if all {
				_ = about.Root().Flags().Set("all", "true")
			}
			return about.Help()
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
			about, _, err := cmd.Root().Find(args)
			if err != nil || about == nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			for _, sub := range about.Commands() {
				if sub.IsAvailableCommand() {
					names = append(names, cobra.CompletionWithDesc(sub.Name(), sub.Short))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
	help.Flags().BoolVar(&all, "all", false, "list all commands")
	return help
}

// complete is the exit code of a command, unless its results could not be written: then it failed,
// whatever it found.
func (c *cli) complete(cmd *cobra.Command, code int, written error) int {
	if written == nil || code == brokenPipeCode { // that code says it
		return code
	}
	fmt.Fprintf(c.Err, "peer: the results could not be written: %v\n", written)
	if cmd != nil && cmd.Annotations[speaksForTask] != "" {
		return ownFailure
	}
	return max(code, 1)
}

// exit prints what went wrong and chooses the exit code.
func (c *cli) exit(cmd *cobra.Command, err error) int {
	if err == nil {
		return 0
	}
	if code, ok := errors.AsType[exitError](err); ok {
		return int(code)
	}
	if errors.Is(err, context.Canceled) { // somebody told it to end (main)
		fmt.Fprintln(c.Err, "peer: interrupted")
		return interruptCode
	}
	if told := (*said)(nil); !errors.As(err, &told) {
		c.complain("", err)
	}
	if cmd != nil && cmd.Annotations[speaksForTask] != "" {
		return ownFailure
	}
	return exitCode(err)
}

// complain says what went wrong: a caller that asked for JSON reads a line of it, as from the API.
func (c *cli) complain(about string, err error) {
	if about != "" {
		about = printable(about) + ": "
	}
	if c.output != "json" && c.output != "jsonl" {
		fmt.Fprintf(c.Err, "peer: %s%s\n", about, printableLines(err.Error()))
		return
	}
	code := api.AsError(err).Code
	if exitCode(err) == 2 {
		code = api.Usage
	}
	_ = writeLine(raw(c.Err), struct {
		Error *api.Error `json:"error"`
	}{api.Errorf(code, "%s", c.carry(about+err.Error()))})
}

func exitCode(err error) int {
	if e, ok := errors.AsType[*api.Error](err); ok {
		return e.Exit()
	}
	if isUsage(err) {
		return 2
	}
	return 1
}

// isUsage recognises the complaints cobra makes without a type.
func isUsage(err error) bool {
	for _, s := range []string{"unknown flag", "unknown shorthand", "flag needs an argument", "invalid argument", "accepts ", "requires at least", "required flag", "unknown command"} {
		if strings.Contains(err.Error(), s) {
			return true
		}
	}
	return false
}

func (c *cli) client() *client.Client {
	cl := client.Of(c.data)
	cl.Start = howToStart("/", c.data)
	if c.output == tableFormat {
		cl.Read = printableStrings
	}
	return cl
}

// untilCtrlC lets a command that looks on end at Ctrl-C or SIGTERM, with the code for it and
// without a word.
func untilCtrlC(look func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ctx, cancel := signal.NotifyContext(cmd.Context(), os.Interrupt)
		defer cancel()
		cmd.SetContext(ctx)
		err := look(cmd, args)
		if ctx.Err() != nil {
			return exitError(interruptCode)
		}
		return err
	}
}

// oneOf refuses flags of which one leaves no room for another.
func oneOf(cmd *cobra.Command, flags ...string) error {
	var set []string
	for _, name := range flags {
		if cmd.Flags().Changed(name) {
			set = append(set, "--"+name)
		}
	}
	if len(set) < 2 {
		return nil
	}
	return api.Errorf(api.Usage, "use only one of %s; see `%s --help`", strings.Join(set, " and "), cmd.CommandPath())
}

// atLeastOne is cobra.MinimumNArgs(1) with a message that says what belongs there.
func atLeastOne(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return api.Errorf(api.Usage, "`%s` needs %s; see `%s --help`", cmd.CommandPath(), what, cmd.CommandPath())
		case slices.Contains(args, ""):
			return api.Errorf(api.Usage, "`%s` needs %s, not an empty word; see `%s --help`", cmd.CommandPath(), what, cmd.CommandPath())
		}
		return nil
	}
}

// noteNamesakes tells on stderr of jobs that are not over and share a name which the command took
// for another job, the newest of that name.
func (c *cli) noteNamesakes(ctx context.Context, words ...string) {
	if c.output != tableFormat {
		return
	}
	for _, word := range words {
		word, _, _ = strings.Cut(word, ".")
		a, err := c.client().Job(ctx, word)
		if err != nil || a.Job.Name != word {
			continue // not a name, or the command itself says what is wrong
		}
		live, err := c.client().SomeJobs(ctx, api.JobQuery{States: []string{"held", "pending", "running"}})
		if err != nil {
			continue
		}
		var others []string
		for _, j := range live.Jobs {
			if j.Name == word && j.ID != a.Job.ID {
				others = append(others, j.ID)
			}
		}
		if len(others) > 0 {
			fmt.Fprintf(c.Err, "note: this is about %s, the newest job named %s; not over: %s\n", a.Job.ID, word, strings.Join(others, " "))
		}
	}
}

// eachOf does something for each of several words: all of them, whatever fails. A failure names its
// word if there are others.
func (c *cli) eachOf(words []string, do func(word string) error) error {
	var first error
	for _, w := range words {
		err := do(w)
		var code exitError
		if err != nil && len(words) > 1 && !errors.As(err, &code) {
			c.complain(w, err)
			err = &said{err}
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// severalJobs is what commands say that change each of several jobs.
const severalJobs = "With -o json the answer for several jobs is one document with all of them, as `peer jobs` prints it."

// eachJob does something to each of several jobs, and prints the answers: as JSON they are one
// document, like that of `peer jobs` where several were named.
func (c *cli) eachJob(ids []string, do func(id string) (api.JobAnswer, error), tell func(id string, j api.Job)) error {
	together := c.output == "json" && len(ids) > 1
	all := api.Jobs{Jobs: []api.Job{}}
	err := c.eachOf(ids, func(id string) error {
		a, err := do(id)
		if together && err == nil {
			all.Jobs = append(all.Jobs, a.Job)
			return nil
		}
		return emit(c, err, a, []api.Job{a.Job}, func(io.Writer) { tell(id, a.Job) })
	})
	if !together {
		return err
	}
	all.AsOf = time.Now().UTC()
	if wrong := writeJSON(c.Out, all); err == nil {
		err = wrong
	}
	return err
}

// said is an error that people have been told: only its code is still of interest.
type said struct{ error }

func (s *said) Unwrap() error { return s.error }

// exactly is cobra.ExactArgs with a message that says what belongs there.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if n > 0 && slices.Contains(args, "") {
			return api.Errorf(api.Usage, "`%s` needs %s, not an empty word; see `%s --help`", cmd.CommandPath(), what, cmd.CommandPath())
		}
		if len(args) == n {
			return nil
		}
		if n == 0 {
			return api.Errorf(api.Usage, "`%s` takes no argument (got %q); see `%s --help`", cmd.CommandPath(), args[0], cmd.CommandPath())
		}
		return api.Errorf(api.Usage, "`%s` needs %s (got %d arguments); see `%s --help`", cmd.CommandPath(), what, len(args), cmd.CommandPath())
	}
}
