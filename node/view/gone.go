package view

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/story"
	"github.com/coveyproject/covey/taskstate"
)

// jobRefused is the state of a job that was held here and that no coordinator takes.
const jobRefused = "refused"

// Refused tells that a job which was held here was refused: whoever watches, and whoever asks for
// it later.
func (v *View) Refused(job *taskstate.Job, why string) {
	v.Events.Tell(job.ID, jobRefused, why)
	if v.cfg.Story == nil {
		return
	}
	v.cfg.Story.Add(story.Entry{}, story.Event{
		At: v.now(), Kind: kindJob, State: jobRefused, Job: string(job.ID),
		Text: fmt.Sprintf("job %s, held here until there was a coordinator, was refused: %s", cmp.Or(job.Name, string(job.ID)), why),
	})
}

// refused says what became of a job that was held here and refused; "" if nothing is known.
func (v *View) refused(id string) string {
	if v.cfg.Story == nil {
		return ""
	}
	for _, e := range slices.Backward(v.cfg.Story.Since(time.Time{})) {
		if e.Job == id && e.State == jobRefused {
			return e.Text + " (at " + stamp(e.At).Format(time.DateTime+" MST") + ")"
		}
	}
	return ""
}

// notHere says why there is no such job: it may have been here, and names of jobs that were are not
// known any more.
func (v *View) notHere(id string, err error) error {
	var gone ledger.Gone
	var was bool
	var others int
	v.cfg.Replica.Read(func(s *ledger.State) {
		gone, was = s.Forgotten(taskstate.JobID(id))
		others, _ = s.ForgottenSince(0)
	})
	refused := ""
	if !was {
		refused = v.refused(id)
	}
	switch {
	case refused != "":
		return api.Errorf(api.NotFound, "%s; submit it again", refused)
	case !was && others == 0:
		return err
	case !was:
		return api.Errorf(api.NotFound, "%v (finished jobs that were deleted: %d, see `peer help pin`)", err, others)
	}
	return api.Errorf(api.NotFound, "job %s ended and was deleted%s, and so was its output; `peer pin` keeps one", id, whyGone(gone))
}

// whyGone says when and why a job was forgotten; nothing if that is not known.
func whyGone(g ledger.Gone) string {
	why := map[ledger.GoneFor]string{
		ledger.GoneForAge:   "it had ended longer ago than finished jobs are kept (keep-for, see `peer set`)",
		ledger.GoneForCount: "more jobs ended after it than are kept (keep-jobs, see `peer set`)",
		ledger.GoneForSize:  fmt.Sprintf("finished jobs took more than %d MiB of the ledger together", ledger.KeepBytes>>20),
	}[g.For]
	if why == "" {
		return ""
	}
	return " at " + stamp(g.At).Format(time.DateTime+" MST") + ", as " + why
}

// tellForgotten says of the jobs beside this one that some are not kept any more: a person who
// looks for them looks here.
func (t *explainer) tellForgotten() {
	var count int
	var last taskstate.JobID
	var gone ledger.Gone
	t.view.cfg.Replica.Read(func(s *ledger.State) {
		count, last = s.ForgottenSince(t.job.accepted)
		gone, _ = s.Forgotten(last)
	})
	if count == 0 || t.slot > 0 {
		return
	}
	what := fmt.Sprintf("job %s, which had finished, was deleted", last)
	if count > 1 {
		what = fmt.Sprintf("%d finished jobs have been deleted since this one was accepted, the last of them %s", count, last)
	}
	t.add(gone.At, api.Fact{Kind: "note", Text: what + whyGone(gone) + "; `peer pin` keeps one"})
}
