package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/coveyproject/covey/node/api"
	folder "github.com/coveyproject/covey/node/blob/disk"
	"github.com/coveyproject/covey/node/blob/tree"
)

// gotJob is what became of getting a job's files.
type gotJob struct {
	Job   string `json:"job"`
	To    string `json:"to"`
	Tasks int    `json:"tasks"` // whose files are there now
	folder.Report
	From    []api.Source `json:"from,omitempty"`
	Missing string       `json:"missing,omitempty"` // whose are not, for people
}

// ofJob brings what a job's tasks left, or one of them.
func (g *getting) ofJob(ctx context.Context, word string) error {
	subject, err := api.ParseSubject(word)
	if err == nil {
		err = g.checkJob(word)
	}
	if err != nil {
		return err
	}
	a, err := g.api.Job(ctx, subject.Job)
	if err != nil {
		return err
	}
	if err := keepsFiles(a.Job); err != nil {
		return err
	}
	id := a.Job.ID
	slot, attempt, err := g.slot(ctx, subject, a.Job)
	if err != nil {
		return err
	}
	h := bringer{api: g.api, to: g.to, flat: g.flat, force: g.force}
	if h.at, err = newHomeFolder(g.to, foldersOf(a.Job), !g.flat && slot == 0); err != nil {
		return err
	}
	if g.wait && !a.Job.Over() {
		return g.whileItRuns(ctx, h, id, slot)
	}
	plan, err := g.plan(ctx, id, slot, attempt)
	if err != nil {
		return err
	}
	switch {
	case g.list, g.tar:
		err = g.stream(ctx, &h, id, plan)
	default:
		err = g.now(ctx, &h, id, plan)
	}
	return err
}

// checkJob refuses words that do not go together.
func (g *getting) checkJob(word string) error {
	switch {
	case g.tar && g.list:
		return api.Errorf(api.Usage, "--tar does not go with --list")
	case (g.tar || g.list) && (g.to != "" || g.force || g.wait):
		return api.Errorf(api.Usage, "--tar and --list write what there is now to stdout: they take none of --to, --force and --wait")
	case g.flat && strings.Contains(g.to, itemMark):
		return api.Errorf(api.Usage, "--flat is one folder for all tasks, and {} in --to one for each; use one of them")
	case g.to == "-":
		return api.Errorf(api.Usage, "files of tasks go to stdout with --tar")
	case g.tar && g.c.output != tableFormat && !g.c.outputFromEnv:
		return api.Errorf(api.Usage, "the bytes go to stdout, so there is no room for -o %s", g.c.output)
	case g.tar && isTerminal(g.c.Out):
		return api.Errorf(api.Usage, "a tar is not for a terminal: write it to a file or a pipe, as in `peer get %s --tar | tar t`", word)
	}
	return nil
}

// keepsFiles refuses a job of which no files are kept.
func keepsFiles(j api.Job) error {
	switch {
	case j.Schedule != nil:
		return api.Errorf(api.Failed, "job %s only starts others at its times: their files are theirs; see `peer jobs`", j.ID)
	case j.Spec != nil && j.Spec.Unknown == "" && len(j.Spec.Outputs) == 0:
		return api.Errorf(api.Failed, "job %s keeps no files: that has to be said before it runs, as in `peer run --out '*.png' -- …`, or with outputs: in a job file; what it printed is in `peer logs %s`", j.ID, j.ID)
	}
	return nil
}

// slot is the slot and attempt that are meant; 0: all.
func (g *getting) slot(ctx context.Context, s api.Subject, j api.Job) (slot, attempt int, err error) {
	if s.Task == "" {
		return 0, 0, nil
	}
	items := map[int]string{}
	err = g.api.EachTask(ctx, j.ID, false, func(t api.Task) error {
		items[t.Slot] = taskItem(t)
		return nil
	})
	if err != nil {
		return 0, 0, err
	}
	return s.Find(foldersOf(j), max(j.Count, j.Wanted), func(slot int) string { return items[slot] })
}

// plan is what can be brought of a job, or of one of its tasks.
func (g *getting) plan(ctx context.Context, id string, slot, attempt int) (homePlan, error) {
	ts, err := g.api.Tasks(ctx, id)
	if err != nil {
		return homePlan{}, err
	}
	tasks := ts.Tasks
	if slot > 0 {
		tasks = nil
		for _, t := range ts.Tasks {
			if t.Slot == slot {
				tasks = append(tasks, t)
			}
		}
		switch {
		case len(tasks) == 0:
			return homePlan{}, api.Errorf(api.NotFound, "job %s has no task %d; it has %d", id, slot, len(ts.Tasks))
		case attempt > 0 && tasks[0].Attempt != attempt:
			return homePlan{}, api.Errorf(api.NotFound, "only what the last attempt left is kept, and that is %s", tasks[0].ID)
		}
	}
	return planHome(tasks, g.partial), nil
}

// left is what is not there, as an error.
func left(id string, p *homePlan, several bool) error {
	switch missing := p.missing(); {
	case missing == "":
		return nil
	case !several:
		return p.refusal()
	case len(p.away) > 0:
		return api.Errorf(api.NoCoordinator, "not all files of job %s: %s", id, missing)
	default:
		return api.Errorf(api.Failed, "not all files of job %s: %s", id, missing)
	}
}

// many tells whether the plan is for several tasks.
func (p *homePlan) many() bool {
	return p.none+len(p.bring)+len(p.away)+len(p.open)+len(p.partial)+len(p.failed) > 1
}

// now brings what is ready.
func (g *getting) now(ctx context.Context, h *bringer, id string, plan homePlan) error {
	if err := left(id, &plan, plan.many()); err != nil && len(plan.bring) == 0 {
		return err
	}
	g.bar.all = plan.bytes
	h.progress = g.bar.add
	h.heard = func(from []api.Source) { g.bar.from = from }
	var report folder.Report
	if len(plan.bring) > 0 {
		var err error
		if report, err = h.bring(ctx, plan.bring); err != nil && g.someAreHere(ctx, err, &plan) {
			g.bar.all = plan.bytes
			report, err = h.bring(ctx, plan.bring)
		}
		if err != nil {
			return err
		}
	}
	g.bar.done()
	return g.sayJob(h, id, plan, len(plan.bring), report, g.bar.come, g.bar.took(report.Bytes), h.from)
}

// someAreHere tells whether, of what could not be brought because those who keep it are not here,
// some can, and leaves only that in the plan.
func (g *getting) someAreHere(ctx context.Context, err error, plan *homePlan) bool {
	var told *api.Error
	if !errors.As(err, &told) || told.Code != api.NoCoordinator {
		return false
	}
	ps, err := g.api.Peers(ctx)
	return err == nil && plan.leaveOut(ps.Peers)
}

// sayJob says what became of it, and is an error if not all is there.
func (g *getting) sayJob(h *bringer, id string, plan homePlan, tasks int, report folder.Report, bytes int64, took string, from []api.Source) error {
	v := gotJob{Job: id, To: h.place(), Tasks: tasks + plan.none, Report: report, From: from, Missing: plan.missing()}
	err := emit(g.c, nil, v, []gotJob{v}, func(io.Writer) {
		fmt.Fprintln(g.c.Err, printable(h.place())+": "+homeText(v.Tasks, report, bytes, took, from))
	})
	if err != nil {
		return err
	}
	return left(id, &plan, plan.many())
}

// stream lists files, or writes them as a tar.
func (g *getting) stream(ctx context.Context, h *bringer, id string, plan homePlan) error {
	if err := left(id, &plan, plan.many()); err != nil && (len(plan.bring) == 0 || g.tar) {
		return err // half a tar would be taken for all
	}
	if err := h.settle(plan.bring); err != nil {
		return err
	}
	lists, err := h.lists(ctx, plan.bring)
	if err != nil {
		return h.explain(err, plan.bring)
	}
	defer lists.file.Close()
	entries, err := h.entries(lists, plan.bring)
	if err != nil {
		return err
	}
	if g.list {
		return g.showJob(id, entries)
	}
	g.bar.all = plan.bytes
	h.heard = func(from []api.Source) { g.bar.from = from }
	files := &filesFlow{h: h, ctx: ctx, entries: entries, all: true}
	defer files.close()
	if err := files.begin(tree.Totals{}); err != nil {
		return err
	}
	return h.explain(g.tarOf(ctx, entries, files.open), plan.bring)
}

func (g *getting) showJob(id string, entries iter.Seq2[tree.Entry, error]) error {
	return g.showAs(entries, func(rows []row) any {
		return struct {
			Job     string `json:"job"`
			Entries []row  `json:"entries"`
		}{id, rows}
	})
}

// whileItRuns brings files as tasks end, until the job does, or the one task that was asked for.
func (g *getting) whileItRuns(ctx context.Context, h bringer, id string, slot int) error {
	ctx, cancel := context.WithCancel(ctx)
	bar := newProgress(g.c.Err)
	defer bar.done()
	home := startHomecoming(ctx, h)
	defer func() { cancel(); <-home.ended }()
	bar.extra = home.text
	why := whyPrinter{w: g.c.Err, bar: bar}
	var last api.Job
	err := g.api.Follow(ctx, id, true, func(p api.Progress) error {
		last = p.Job
		for _, t := range p.Tasks {
			if slot > 0 && t.Slot != slot {
				continue
			}
			home.add(t)
			if slot > 0 && t.State == "complete" {
				return errEnough
			}
		}
		why.heard(p.Job)
		bar.show(p.Job)
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	plan, err := g.plan(ctx, id, slot, 0)
	if err != nil {
		return err
	}
	home.bring(plan.bring)
	if err := home.finish(func() { bar.show(last) }); err != nil {
		return err
	}
	bar.clear()
	return g.sayJob(&h, id, plan, home.tasks, home.report, home.bytes, "", home.from)
}
