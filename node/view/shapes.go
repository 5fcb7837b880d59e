package view

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/tasklog"
	"github.com/coveyproject/covey/node/view/shape"
	"github.com/coveyproject/covey/taskstate"
)

// Shapes shows jobs of any size in a few kilobytes: it implements api.ShapeBackend.
type Shapes struct {
	view  *View
	cache shape.Cache
	lasts lastLines
}

// shaped is one picture of a job, and when it was true.
func shaped[T any](ctx context.Context, x *Shapes, id, key string, draw func(*shape.Facts) T) (picture T, asOf time.Time, err error) {
	type drawn struct {
		it T
		at int64
	}
	job, held, err := x.view.Find(ctx, id)
	if err != nil {
		return picture, asOf, err
	}
	count := 0
	var now shape.Stamp
	if held != nil {
		count = held.Job.Count
	} else if count, now, err = x.stamp(job); err != nil {
		return picture, asOf, err
	}
	scan := func() *shape.Facts {
		f := shape.New(count, x.view.now())
		if held != nil {
			f.Wait()
			return f
		}
		x.scan(f, job, count)
		return f
	}
	d := x.cache.Look(job, now, scan, key, func(f *shape.Facts) any { return drawn{draw(f), f.Now} }).(drawn)
	return d.it, stamp(d.at), nil
}

// stamp tells how many slots a job has, and whether anything has changed.
func (x *Shapes) stamp(job taskstate.JobID) (slots int, now shape.Stamp, err error) {
	now.News, now.Ledger = x.view.hub.newest(), x.view.cfg.Replica.Applied()
	err = ErrNoJob(string(job))
	x.view.cfg.Replica.Read(func(s *ledger.State) {
		if j, ok := s.Job(job); ok {
			slots, err = j.Slots(), nil
			if at, over := j.Ended(); over {
				now = shape.Stamp{Ended: at}
			}
		}
	})
	return slots, now, err
}

// scan takes in some slots at a time: entries of the ledger are applied meanwhile.
func (x *Shapes) scan(f *shape.Facts, job taskstate.JobID, count int) {
	said := x.view.cfg.Table.OfJob(job) // before the ledger: what it settles meanwhile is final there
	for first := 1; first <= count; first += piece {
		x.view.cfg.Replica.Read(func(s *ledger.State) {
			if j, ok := s.Job(job); ok {
				f.Add(j, first, min(first+piece-1, count), said)
			}
		})
	}
}

// pace says how fast a job goes that ends by itself; nil for others. That of one with very many
// slots is a picture like the others, as to look at all of them takes long.
func (x *Shapes) pace(job taskstate.JobID) *api.Pace {
	slots, now, err := x.stamp(job)
	if err != nil {
		return nil
	}
	left, ends := 0, false
	x.view.cfg.Replica.Read(func(s *ledger.State) {
		if j, ok := s.Job(job); ok {
			c := j.Counts()
			left, ends = c.Pending+c.Open, !j.Lasts() && !j.Scheduled()
		}
	})
	if !ends {
		return nil
	}
	scan := func() *shape.Facts {
		f := shape.New(slots, x.view.now())
		x.scan(f, job, slots)
		return f
	}
	draw := func(f *shape.Facts) any {
		p := f.Pace(left)
		for i := range p.Peers {
			q := &p.Peers[i]
			q.PeerName = x.view.Who.Name(q.Peer)
			if q.Running > 0 {
				p.Running[cmp.Or(q.PeerName, q.Peer)] += q.Running
			}
		}
		return p
	}
	if slots <= piece {
		return draw(scan()).(*api.Pace)
	}
	return x.cache.Look(job, now, scan, "pace", draw).(*api.Pace)
}

// Grid implements api.ShapeBackend.
func (x *Shapes) Grid(ctx context.Context, id string, cells int) (g api.Grid, err error) {
	g, g.AsOf, err = shaped(ctx, x, id, fmt.Sprint("grid ", cells), func(f *shape.Facts) api.Grid { return f.Grid(cells) })
	return g, err
}

// Timeline implements api.ShapeBackend.
func (x *Shapes) Timeline(ctx context.Context, id string, px int) (t api.Timeline, err error) {
	t, t.AsOf, err = shaped(ctx, x, id, fmt.Sprint("timeline ", px), func(f *shape.Facts) api.Timeline {
		t := f.Timeline(px)
		for i := range t.Lanes {
			t.Lanes[i].PeerName = x.view.Who.Name(t.Lanes[i].Peer)
		}
		slices.SortFunc(t.Lanes, func(a, b api.Lane) int {
			return cmp.Or(strings.Compare(a.PeerName, b.PeerName), strings.Compare(a.Peer, b.Peer))
		})
		return t
	})
	return t, err
}

// Failures implements api.ShapeBackend.
func (x *Shapes) Failures(ctx context.Context, id string) (out api.Failures, err error) {
	out, out.AsOf, err = shaped(ctx, x, id, "failures", func(f *shape.Facts) api.Failures {
		out := f.Failures()
		for i := range out.Groups {
			g := &out.Groups[i]
			for k := range g.Peers {
				g.Peers[k].PeerName = x.view.Who.Name(g.Peers[k].Peer)
			}
			for k := range g.Examples {
				g.Examples[k].PeerName = x.view.Who.Name(g.Examples[k].Peer)
			}
		}
		return out
	})
	if err == nil {
		out.Groups = slices.Clone(out.Groups) // the cache's stay as they are
		for i := range out.Groups {
			out.Groups[i].Examples = slices.Clone(out.Groups[i].Examples)
			for k, e := range out.Groups[i].Examples {
				if id, err := taskstate.ParseTaskID(e.Task); err == nil {
					out.Groups[i].Examples[k].Named = x.view.namesOf(id.Job)(id)
				}
			}
		}
		x.lastLines(ctx, out.Groups)
	}
	return out, err
}

// What a picture of failures may cost to say what tasks printed last.
const (
	lastGroups  = 12 // the first
	lastAtOnce  = 8
	lastWait    = 400 * time.Millisecond // for all of them
	lastTail    = 5                      // lines, of which some may be empty
	lastBytes   = 64 << 10               // of a task's output
	lastKept    = 1000                   // that are remembered
	lastMissing = 10 * time.Second       // after so long, what could not be had is asked for again
)

// lasts remembers what ended tasks printed last.
type lastLines struct {
	mu sync.Mutex
	of map[string]lastLine
}

type lastLine struct {
	text  string
	until time.Time // zero: it stays so
}

func (l *lastLines) get(task string) (string, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	x, ok := l.of[task]
	return x.text, ok && (x.until.IsZero() || time.Now().Before(x.until))
}

func (l *lastLines) put(task string, x lastLine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil || len(l.of) >= lastKept {
		l.of = map[string]lastLine{}
	}
	l.of[task] = x
}

// lastLines fills in what the examples of each group printed last, of the first groups and as far
// as it can be had in time: of each group one, then the others.
func (x *Shapes) lastLines(ctx context.Context, groups []api.Failure) {
	ctx, cancel := context.WithTimeout(ctx, lastWait)
	defer cancel()
	groups = groups[:min(len(groups), lastGroups)]
	var missing []*api.Example
	for k := range shape.MaxExamples {
		for i := range groups {
			if k < len(groups[i].Examples) {
				e, known := &groups[i].Examples[k], false
				if e.Last, known = x.lasts.get(e.Task); !known {
					missing = append(missing, e)
				}
			}
		}
	}
	var asking sync.WaitGroup
	turns := make(chan *api.Example, len(missing))
	for _, e := range missing {
		turns <- e
	}
	close(turns)
	for range min(len(missing), lastAtOnce) {
		asking.Go(func() {
			for e := range turns {
				if ctx.Err() != nil {
					return // the others have their turn when somebody looks again
				}
				found := lastLine{}
				var err error
				if found.text, err = x.lastOf(ctx, e.Task); err != nil {
					found.until = time.Now().Add(lastMissing)
				}
				x.lasts.put(e.Task, found)
				e.Last = found.text
			}
		})
	}
	asking.Wait()
	for i := range groups {
		for _, e := range groups[i].Examples {
			groups[i].Last = cmp.Or(groups[i].Last, e.Last)
		}
	}
}

// lastOf is the last line of a task on stderr, or if there is none on stdout.
func (x *Shapes) lastOf(ctx context.Context, task string) (string, error) {
	said, all := map[string][]byte{}, 0
	job, _, _ := strings.Cut(task, ".")
	err := x.view.Logs(ctx, job, api.LogQuery{Task: task, Tail: lastTail}, func(c api.LogChunk) error {
		if c.Error != nil {
			return c.Error
		}
		if all += len(c.Data); all > lastBytes {
			return errors.New("its last lines are long")
		}
		said[c.Stream] = append(said[c.Stream], c.Data...)
		return nil
	})
	return cmp.Or(shape.LastLine(said[tasklog.Stderr]), shape.LastLine(said[tasklog.Stdout])), err
}

// SomeTasks implements api.ShapeBackend.
func (x *Shapes) SomeTasks(ctx context.Context, id string, q api.TaskQuery) (api.Tasks, error) {
	want, err := x.query(q)
	if err != nil {
		return api.Tasks{}, err
	}
	type page struct {
		slots []int
		all   int
		next  string
		err   error
	}
	p, asOf, err := shaped(ctx, x, id, fmt.Sprintf("page %+v", want), func(f *shape.Facts) (p page) {
		p.slots, p.all, p.next, p.err = f.Page(want)
		return p
	})
	if err == nil && p.err != nil {
		err = api.Errorf(api.Usage, "%v", p.err)
	}
	if err != nil {
		return api.Tasks{}, err
	}
	job, held, err := x.view.Find(ctx, id)
	if err != nil {
		return api.Tasks{}, err
	}
	out := api.Tasks{Tasks: []api.Task{}, AsOf: asOf, All: p.all, Next: p.next}
	if held != nil {
		for _, slot := range p.slots {
			out.Tasks = append(out.Tasks, taskRow(&held.Job, ledger.SlotRecord{Slot: slot}, 0, nil, false))
		}
		out.Tasks = nameTasks(&held.Job, out.Tasks)
		return out, nil
	}
	if len(p.slots) > 0 {
		gone := x.view.away(ctx, job)
		out.Tasks, err = x.view.taskRowsNow(job, p.slots, &gone)
	}
	return out, err
}

// query understands what is asked for.
func (x *Shapes) query(q api.TaskQuery) (shape.Query, error) {
	want := shape.Query{Sort: q.Sort, After: q.After, Limit: cmp.Or(q.Limit, api.MaxPage)}
	if q.Peer != "" {
		var err error
		if want.Peer, err = x.view.Who.MeantPeer(q.Peer); err != nil {
			return want, err
		}
	}
	for _, word := range q.States {
		i := slices.IndexFunc(taskstate.States(), func(s taskstate.State) bool { return s.String() == word })
		if i < 0 {
			return want, api.Errorf(api.Usage, "state %q: expected one or more of %v, with commas", word, taskstate.States())
		}
		want.States = append(want.States, taskstate.States()[i])
	}
	return want, nil
}
