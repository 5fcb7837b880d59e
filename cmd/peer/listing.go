package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"covey/node/api"
	"covey/taskstate"
	"covey/taskstate/spell"
)

func (c *cli) peersCommand() *cobra.Command {
	var labels, wide bool
	cmd := &cobra.Command{
		Use:   "peers",
		Short: "Who is here: standing, coordinator, capacity, tasks",
		Long: `Who is here: role among those who decide, standing, cpus of tasks that have begun of those offered
(and, with a +, of tasks that wait there for their turn), tasks, and how this peer reaches it.
What is not the same everywhere has a column, too: versions, news that is old, memory that is
promised, named counts. --wide shows all of it.`,
		Example: "  peer peers\n  peer peers --wide --labels\n  peer peers -o json | jq -r '.peers[] | select(.standing==\"ready\").name'",
		Args:    exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ps, err := c.client().Peers(cmd.Context())
			if err != nil {
				return err
			}
			if err := emit(c, ps, ps.Peers, func(w io.Writer) { peersTable(ps, wide, labels).write(w) }); err != nil {
				return err
			}
			if ps.Coordinator == "" && c.output == tableForm {
				fmt.Fprintln(c.Err, noCoordinatorLine(ps))
			}
			if c.output == tableForm {
				writeTroubles(c.Err, ps.Peers)
			}
			if one := oneSeat(ps); one != "" {
				fmt.Fprintln(c.Err, one)
			}
			if ps.Frozen {
				fmt.Fprintf(c.Err, "replacement is frozen: %s; their tasks wait for them. If they are really gone: `peer thaw`\n", ps.FrozenReason)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&wide, "wide", false, "show everything: ids, memory, versions, age of the news")
	cmd.Flags().BoolVar(&labels, "labels", false, "show the labels, too")
	return cmd
}

// writeTroubles says what is wrong with peers, one line each.
func writeTroubles(w io.Writer, peers []api.Peer) {
	for _, p := range peers {
		if p.Trouble != "" {
			fmt.Fprintln(w, printable(p.Name+" takes no tasks: "+p.Trouble))
		}
		for _, t := range p.Troubles {
			if t.Message != p.Trouble {
				fmt.Fprintln(w, printable(p.Name+": "+t.Message))
			}
		}
	}
}

func noCoordinatorLine(ps api.Peers) string {
	line := "no coordinator in sight: what runs goes on, new jobs are held"
	if ps.WaitingFor != "" {
		line += "; waiting for " + ps.WaitingFor + " – start `peer up` there (gone for good? `peer recover`)"
	}
	return line
}

// ofOffer writes what is promised of what a peer offers. Of one that was not heard since the
// coordinator is coordinator nobody knows its offer: no peer offers no memory.
func ofOffer(p api.Peer, used, offered string) string {
	if p.Memory == 0 {
		offered = "-"
	}
	return used + "/" + offered
}

// availabilityText says whether a peer takes tasks, of one that is drained what is left on it, and
// why, as whoever decided it said.
func availabilityText(p api.Peer) string {
	text := availabilityWord(p)
	if p.AvailabilityReason != "" && p.Availability != api.Active {
		text += " (" + p.AvailabilityReason + ")"
	}
	return text
}

func availabilityWord(p api.Peer) string {
	if p.Availability == api.Drained {
		if n := tasksLeft(p); n > 0 {
			return fmt.Sprintf("draining: %d left", n)
		}
		return "drained"
	}
	if p.Availability == api.Paused {
		return "paused"
	}
	return p.Availability
}

// jobFilter chooses among all jobs.
type jobFilter struct {
	states []string
	name   string
	limit  int
}

func (f jobFilter) check() error {
	for _, s := range f.states {
		if s != taskstate.Shutdown.String() && !slices.Contains(jobStates, s) {
			msg := fmt.Sprintf("--state %q: expected %s", s, strings.Join(jobStates, ", "))
			if near := spell.Nearest(s, jobStates); near != "" {
				msg += fmt.Sprintf("; did you mean %s?", near)
			}
			return api.Errorf(api.Usage, "%s", msg)
		}
	}
	if f.limit < 0 {
		return api.Errorf(api.Usage, "--limit %d: expected a whole number from 1", f.limit)
	}
	return nil
}

// of are the jobs that were asked for, in the order they come.
func (f jobFilter) of(jobs []api.Job) []api.Job {
	out := make([]api.Job, 0, len(jobs))
	for _, j := range jobs {
		if f.limit > 0 && len(out) == f.limit {
			break
		}
		if (len(f.states) == 0 || slices.Contains(f.states, j.State) || slices.Contains(f.states, jobState(j.State))) && (f.name == "" || j.Name == f.name) {
			out = append(out, j)
		}
	}
	return out
}

// jobStates are the states a job may be in, as people read them.
var jobStates = []string{"held", "pending", "running", "complete", "failed", "cancelled"}

// jobState is how people read the state of a job; in JSON one that was cancelled is "shutdown".
func jobState(state string) string {
	if state == taskstate.Shutdown.String() {
		return "cancelled"
	}
	return state
}

func (c *cli) jobsCommand() *cobra.Command {
	var f jobFilter
	var wide bool
	cmd := &cobra.Command{
		Use:   "jobs",
		Short: "All jobs, newest first",
		Example: `  peer jobs
  peer jobs --state running,pending --limit 20
  peer jobs --name frames -o jsonl | jq -r .id`,
		Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			js, err := c.client().Jobs(cmd.Context())
			if err != nil {
				return err
			}
			js.Jobs = f.of(js.Jobs)
			return emit(c, js, js.Jobs, func(w io.Writer) {
				c.carryJobs(js.Jobs...)
				t := jobsTable(js.Jobs)
				if !wide {
					t.fit(w)
				}
				t.write(w)
			})
		},
	}
	cmd.Flags().StringSliceVar(&f.states, "state", nil, "only jobs in these `STATES`: "+strings.Join(jobStates, ", "))
	cmd.Flags().StringVar(&f.name, "name", "", "only jobs with this `NAME`")
	cmd.Flags().BoolVar(&wide, "wide", false, "whole lines, however narrow the terminal is")
	cmd.Flags().IntVar(&f.limit, "limit", 0, "only the newest `N` of them")
	return cmd
}

// tally is where the tasks of a job are, each in one of these.
type tally struct{ done, running, waiting, failed, stopped, away int }

func tallyOf(j api.Job) tally {
	var t tally
	for state, n := range j.Tasks {
		switch state {
		case "complete":
			t.done += n
		case "starting", "running":
			t.running += n
		case "failed", "rejected", "orphaned":
			t.failed += n
		case "shutdown":
			t.stopped += n
		default: // nobody has it, or it stands in line on a peer
			t.waiting += n
		}
	}
	t.away = j.Tasks["running"] - reached(j)
	t.running -= t.away
	return t
}

// jobsTable has a column for tasks that were stopped, and one for those that cannot be reached, if
// there are any.
func jobsTable(jobs []api.Job) *grid {
	var all tally
	for _, j := range jobs {
		t := tallyOf(j)
		all.away, all.stopped = all.away+t.away, all.stopped+t.stopped
	}
	columns := func(cells []string, away, stopped string) []string {
		if all.away > 0 {
			cells = append(cells, away)
		}
		if all.stopped > 0 {
			cells = append(cells, stopped)
		}
		return cells
	}
	t := table(append(columns([]string{"ID", "NAME", "STATE", "DONE", "RUNNING", "WAITING", "FAILED"}, "AWAY", "STOPPED"), "AGE", "TOOK", "NOTE")...)
	for _, j := range jobs {
		n := tallyOf(j)
		done, running := fmt.Sprintf("%d/%d", n.done, j.Count), strconv.Itoa(n.running)
		switch {
		case j.Version > 0 && n.done == 0:
			done, running = "-", fmt.Sprintf("%d/%d", n.running, j.Wanted)
		case j.Version > 0:
			done, running = strconv.Itoa(n.done), fmt.Sprintf("%d/%d", n.running, j.Wanted)
		case j.Schedule != nil: // the tasks are those of its runs
			done, running = "-", "-"
		}
		cells := []string{j.ID, orDash(j.Name), jobState(j.State), done, running, strconv.Itoa(n.waiting), strconv.Itoa(n.failed)}
		t.add(append(columns(cells, strconv.Itoa(n.away), strconv.Itoa(n.stopped)), ago(j.Submitted), took(j), tableNote(j))...)
	}
	return t
}

// wentWrong tells of a task what failures counts.
func wentWrong(t api.Task) bool {
	return t.State == "failed" || t.State == "rejected" || t.State == "orphaned"
}

// failures counts the tasks that went wrong, whatever the way.
func failures(j api.Job) int { return j.Tasks["failed"] + j.Tasks["rejected"] + j.Tasks["orphaned"] }

func took(j api.Job) string {
	if j.Ended == nil {
		return "-"
	}
	return short(j.Ended.Sub(j.Submitted))
}

func (c *cli) jobCommand() *cobra.Command {
	var file bool
	cmd := &cobra.Command{
		Use:   "job ID",
		Short: "One job: what it runs, state, counts, why it waits",
		Long: `One job: what it runs and needs, its state, its tasks, how fast they end and how long they ran,
why any of them wait, and what cannot be reached. --file prints a job file that would do the same,
to be changed and submitted again.`,
		Example: "  peer job last\n  peer job k3v5 -o json\n  peer job sweep --file > sweep.yaml",
		Args:    exactly(1, "a job: its id, a unique prefix, its name, or `last`"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if file {
				f, err := c.client().JobFile(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return emit(c, f, []api.JobFile{f}, func(w io.Writer) { fmt.Fprint(w, f.File) })
			}
			a, err := c.client().Job(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return emit(c, a, []api.Job{a.Job}, func(w io.Writer) {
				c.carryJobs(a.Job)
				jobText(w, a.Job)
			})
		},
	}
	cmd.Flags().BoolVar(&file, "file", false, "print a job file that would do the same, values of its environment included")
	return cmd
}

func jobText(w io.Writer, j api.Job) {
	line := func(k, v string) {
		if v != "" {
			fmt.Fprintf(w, "%-10s %s\n", k, printable(v))
		}
	}
	line("id", j.ID)
	line("name", j.Name)
	specText(line, j.Spec)
	fmt.Fprintf(w, "%-10s %s\n", "state", styleFor(w).state(jobState(j.State)))
	var parts []string
	for _, s := range []string{"pending", "assigned", "accepted", "preparing", "ready", "starting", "running", "complete", "failed", "rejected", "shutdown", "orphaned"} {
		n := j.Tasks[s]
		if s == "running" {
			n = reached(j)
			if away := j.Tasks[s] - n; away > 0 {
				parts = append(parts, fmt.Sprintf("%d unreachable", away))
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, taskstate.Shown(s)))
		}
	}
	if j.Version > 0 {
		line("type", j.Type)
		line("rollout", rolloutText(j))
	}
	if all := tasksOf(j); all > 0 { // a schedule has none: they are those of its runs
		line("tasks", fmt.Sprintf("%d: %s", all, strings.Join(parts, ", ")))
	}
	if !j.Over() {
		line("progress", paceLine(j))
	}
	line("times", timesText(j.Pace))
	line("submitted", j.Submitted.Local().Format(withZone)+" through "+shortID(j.Submitter))
	if j.Ended != nil {
		line("ended", j.Ended.Local().Format(withZone)+", took "+took(j))
	}
	if j.Version == 0 {
		line("note", jobNote(j))
	}
	line("cancelled", j.Cancelled)
	line("waiting", j.Waiting)
	for _, a := range j.Unreachable {
		line("away", awayText(a))
	}
}

// tasksOf counts the tasks of a job, those included that are only still to be stopped.
func tasksOf(j api.Job) (all int) {
	for _, n := range j.Tasks {
		all += n
	}
	return all
}

// reached counts the tasks that run on peers that can be reached. What others do nobody knows.
func reached(j api.Job) int {
	n := j.Tasks["running"]
	for _, a := range j.Unreachable {
		n -= a.Running
	}
	return max(0, n)
}

// awayText says what a peer has of a job that cannot be reached.
func awayText(a api.Away) string {
	return countOf(a.Tasks, "task") + " " + unreachableText(a.PeerName, a.Unreachable)
}

// unreachableText says since when a peer cannot be reached, and what will happen with what it has.
func unreachableText(peer string, u api.Unreachable) string {
	return fmt.Sprintf("unreachable on %s for %s; %s", peer, short(time.Since(u.Since)), u.Then)
}

// paceLine is the line of progress of a job as it stands, without its bar.
func paceLine(j api.Job) string {
	if j.Pace == nil || j.Count < 2 {
		return ""
	}
	line := progressCounts(j)
	if j.Pace.Rate > 0 {
		line += "  " + number(j.Pace.Rate) + "/s"
	}
	if j.Pace.Left > 0 {
		line += "  " + timeLeft(j.Pace.Left)
	}
	if on := peersText(j.Pace.Running); on != "" {
		line += "  " + on
	}
	return line
}

// timesText says how long the tasks of a job ran and had waited.
func timesText(p *api.Pace) string {
	if p == nil || p.Longest == "" {
		return ""
	}
	return fmt.Sprintf("tasks ran %s on average, after waiting %s; the longest, %s, %s",
		short(seconds(p.Ran)), short(seconds(p.Waited)), p.Longest, short(seconds(p.LongestTook)))
}

func (c *cli) tasksCommand() *cobra.Command {
	var all, failed, items, null, wide bool
	cmd := &cobra.Command{
		Use:   "tasks ID",
		Short: "A job's tasks: state, peer, exit code, how long, why",
		Long: `A job's tasks: the newest attempt of each slot that is wanted. --all adds the earlier attempts
that are remembered (the last five of a slot), and slots a service does not want any more. TOOK is
how long it ran; in JSON "took", and "waited" for how long it waited to be started. What a peer
that cannot be reached does nobody knows: its tasks are unreachable, and the last column says what
will happen.`,
		Example: "  peer tasks last\n  peer tasks last --failed\n  peer tasks last --failed --items | peer run --each-line - -- ./again {}\n  peer tasks last -o jsonl | jq -r 'select(.exit_code!=0).id'\n  peer tasks web --all",
		Args:    exactly(1, "a job: its id, a unique prefix, its name, or `last`"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case null && !items:
				return api.Errorf(api.Usage, "--null goes with --items")
			case items && c.output != tableForm:
				return api.Errorf(api.Usage, "--items prints items and nothing else; leave out -o, or take .tasks[].item of the JSON")
			case items:
				return c.listItems(cmd.Context(), args[0], failed, null)
			case c.output != "json":
				return c.listTasks(cmd.Context(), args[0], all, failed, wide)
			}
			list := c.client().Tasks
			if all {
				list = c.client().AllTasks
			}
			ts, err := list(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if failed {
				ts.Tasks = slices.DeleteFunc(ts.Tasks, func(t api.Task) bool { return !wentWrong(t) })
			}
			return writeJSON(c.Out, ts)
		},
	}
	cmd.Flags().BoolVar(&wide, "wide", false, "whole lines, however narrow the terminal is")
	cmd.Flags().BoolVar(&failed, "failed", false, "only those that failed, could not start or were lost")
	cmd.Flags().BoolVar(&items, "items", false, "print only the items, one per line, to the byte: with --failed a list of what to do again")
	cmd.Flags().BoolVar(&null, "null", false, "with --items: end each with a zero byte, for peer run --null and xargs -0")
	cmd.Flags().BoolVar(&all, "all", false, "also earlier attempts, and slots that are not wanted any more")
	return cmd
}

func (c *cli) watchCommand() *cobra.Command {
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
			w := watching{cli: c, token: since, bookmarks: bookmarks}
			return w.run(cmd.Context())
		}),
	}
	cmd.Flags().BoolVar(&bookmarks, "bookmarks", false, "print a line from time to time when nothing happens, with the newest token")
	cmd.Flags().StringVar(&since, "since", "", "go on after the event with this `TOKEN`")
	return cmd
}

// oneSeat warns while a single machine holds all decisions though others may.
func oneSeat(ps api.Peers) string {
	seats, may, who := 0, 0, ""
	for _, p := range ps.Peers {
		if p.Voter {
			seats, who = seats+1, p.Name
		}
		if slices.Contains(p.Roles, "voter") && p.Standing != "left" {
			may++
		}
	}
	if ps.Coordinator == "" || seats != 1 || may < 2 {
		return ""
	}
	return api.OneSeat(who, may)
}
