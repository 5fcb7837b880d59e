package history

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// Broken is a promise that was not kept to a client.
type Broken struct {
	Job string
	Why string
	Ops []Op // all about that job
}

// Error tells the whole story of the job.
func (b *Broken) Error() string {
	var s strings.Builder
	fmt.Fprintf(&s, "job %s: %s", b.Job, b.Why)
	for _, o := range b.Ops {
		fmt.Fprintf(&s, "\n  %v", o)
	}
	return s.String()
}

// patience bounds the search for an order of one job's calls, in real time.
const patience = 20 * time.Second

// Check judges calls, given by the time of their invocation. nil means that all promises were kept.
func Check(ops []Op) *Broken {
	jobs := map[string][]Op{}
	for _, o := range ops {
		jobs[o.Job] = append(jobs[o.Job], o)
	}
	for _, id := range slices.Sorted(maps.Keys(jobs)) {
		if why := judge(jobs[id]); why != "" {
			return &Broken{id, why, jobs[id]}
		}
	}
	return nil
}

// judge says what is wrong with the calls about one job, "" if nothing is.
func judge(ops []Op) string {
	if why := takenBack(ops); why != "" {
		return why
	}
	ends := map[string]bool{}
	for _, o := range ops {
		if o.View.End != "" {
			ends[o.View.End] = true
		}
	}
	if len(ends) > 1 {
		return fmt.Sprintf("it ended in more than one way: %v", slices.Sorted(maps.Keys(ends)))
	}
	switch porcupine.CheckOperationsTimeout(model(), operations(ops), patience) {
	case porcupine.Illegal:
		return "no order of the decisions explains what clients were told"
	case porcupine.Unknown:
		return fmt.Sprintf("whether an order of the decisions explains it was not found out in %v", patience)
	}
	return ""
}

// takenBack looks for a session in which a peer unsaid what it had said.
func takenBack(ops []Op) string {
	last := map[string]Op{}
	for _, o := range ops {
		if o.Kind != Read || o.Session == "" {
			continue
		}
		if was, ok := last[o.Session]; ok && behind(o.View, was.View) {
			return fmt.Sprintf("in %s it was %v, and then %v", o.Session, was.View, o.View)
		}
		last[o.Session] = o
	}
	return ""
}

func behind(now, was View) bool {
	return was.Known && !now.Known || was.Cancelled && !now.Cancelled || was.End != "" && now.End != was.End
}

// operations makes what porcupine wants. A read that may be behind may have its moment anywhere
// before its response; of those that saw the same, the first to return says it all.
func operations(ops []Op) []porcupine.Operation {
	var out []porcupine.Operation
	add := func(o Op, call, ret time.Duration) {
		out = append(out, porcupine.Operation{ClientId: len(out), Input: o, Call: int64(call), Return: int64(ret)})
	}
	first := map[View]Op{}
	begin, end, known := time.Duration(math.MaxInt64), "", false
	for _, o := range ops {
		begin = min(begin, o.Call)
		switch {
		case o.Kind == Read && !o.Fresh:
			if f, ok := first[o.View]; !ok || o.Return < f.Return {
				first[o.View] = o
			}
		case o.Kind != Read && o.Kind != End && o.Answer == Unknown:
			add(o, o.Call, math.MaxInt64)
		default:
			add(o, o.Call, o.Return)
		}
		switch {
		case o.View.End != "":
			end, known = o.View.End, known || o.Kind == End
		case o.Answer == Over && end == "":
			end = "unseen"
		}
	}
	for _, o := range first {
		add(o, min(begin, o.Call), o.Return)
	}
	if end != "" && !known { // nobody says when it was decided
		add(Op{Kind: End, View: View{Known: true, End: end}}, begin, math.MaxInt64)
	}
	return out
}

type job struct {
	exists    bool
	content   string
	cancelled bool
	end       string
}

func model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return job{} },
		Step: func(state, input, _ any) (bool, any) { return state.(job).step(input.(Op)) },
	}
}

// step says whether a call can have got its answer from this state, and what is after it.
func (j job) step(o Op) (bool, job) {
	switch o.Kind {
	case Submit:
		return j.submit(o)
	case Cancel:
		return j.cancel(o)
	case End:
		ok := j.exists && j.end == ""
		j.end = o.View.End
		return ok, j
	default:
		return j.view() == o.View, j
	}
}

func (j job) view() View { return View{j.exists, j.cancelled, j.end} }

func (j job) submit(o Op) (bool, job) {
	was := j
	if !j.exists {
		j.exists, j.content = true, o.Content
	}
	switch o.Answer {
	case Done:
		return j.content == o.Content, j
	case Other:
		return was.exists && was.content != o.Content, was
	case Over:
		return false, j // a ledger that forgets does so after a thousand jobs: no history is that long
	}
	return true, j
}

func (j job) cancel(o Op) (bool, job) {
	can := j.exists && (j.end == "" || j.cancelled)
	switch o.Answer {
	case Done:
		j.cancelled = true
		return can, j
	case Over:
		return j.exists && j.end != "" && !j.cancelled, j
	}
	j.cancelled = j.cancelled || can
	return true, j
}
