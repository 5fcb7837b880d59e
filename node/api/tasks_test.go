package api_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/node/api"
)

// pieces answers with tasks in pieces, and may break off.
type pieces struct {
	fake
	sizes []int
	err   error
}

func (p *pieces) Tasks(context.Context, string) (api.Tasks, error) {
	n := 0
	next := func(size int) (out []api.Task) {
		for range size {
			n++
			out = append(out, api.Task{ID: fmt.Sprint("j.", n), Slot: n})
		}
		return out
	}
	return api.Tasks{Tasks: next(p.sizes[0]), AsOf: time.Unix(9, 0).UTC(), More: func(yield func([]api.Task, error) bool) {
		for _, size := range p.sizes[1:] {
			if !yield(next(size), nil) {
				return
			}
		}
		if p.err != nil {
			yield(nil, p.err)
		}
	}}, nil
}

func TestTasksAreReadOneByOneUntilNobodyWantsMore(t *testing.T) {
	c, _, _ := serve(t, &pieces{sizes: []int{2, 100_000}})
	enough, n := errors.New("enough"), 0
	err := c.EachTask(t.Context(), "j", false, func(api.Task) error {
		if n++; n == 3 {
			return enough
		}
		return nil
	})
	if n != 3 || !errors.Is(err, enough) {
		t.Errorf("%d tasks, %v", n, err)
	}
	c, _, _ = serve(t, &pieces{sizes: []int{2, 1}, err: errors.New("gone")})
	if err := c.EachTask(t.Context(), "j", false, func(api.Task) error { return nil }); err == nil || api.AsError(err).Code != api.Failed {
		t.Errorf("an answer that was cut off: %v", err)
	}
}

func TestTasksThatComeInPiecesAreOneAnswer(t *testing.T) {
	for _, sizes := range [][]int{{2, 3, 1}, {0, 3}, {3, 0}, {0, 0}, {0}} {
		c, _, _ := serve(t, &pieces{sizes: sizes})
		got, err := c.Tasks(t.Context(), "j")
		var each []api.Task
		if err := c.EachTask(t.Context(), "j", false, func(x api.Task) error { each = append(each, x); return nil }); err != nil || !slices.EqualFunc(each, got.Tasks, func(a, b api.Task) bool { return a.ID == b.ID && a.Slot == b.Slot }) {
			t.Errorf("%v: one by one: %+v, %v", sizes, each, err)
		}
		want := 0
		for _, n := range sizes {
			want += n
		}
		if err != nil || len(got.Tasks) != want || got.AsOf != time.Unix(9, 0).UTC() || got.Tasks == nil {
			t.Fatalf("%v: %+v, %v", sizes, got, err)
		}
		for i, x := range got.Tasks {
			if x.Slot != i+1 {
				t.Errorf("%v: task %d is %+v", sizes, i, x)
			}
		}
	}
}

func TestAnAnswerThatBreaksOffIsNotTakenForAllThereIs(t *testing.T) {
	c, _, _ := serve(t, &pieces{sizes: []int{2, 2}, err: errors.New("forgotten meanwhile")})
	if got, err := c.Tasks(t.Context(), "j"); err == nil || !strings.Contains(err.Error(), "cannot read the peer's answer") {
		t.Errorf("%d tasks, %v", len(got.Tasks), err)
	}
}

func TestWhichJobsAreAskedForIsToldAndChecked(t *testing.T) {
	c, _, _ := serve(t, &fake{})
	js, err := c.SomeJobs(t.Context(), api.JobQuery{States: []string{"held", "cancelled"}, Limit: 7, Since: time.Unix(99, 0)})
	if err != nil || js.Jobs[0].ID != "[held cancelled] 7 99" {
		t.Errorf("%+v, %v", js, err)
	}
	if js, err := c.SomeJobs(t.Context(), api.JobQuery{}); err != nil || js.Jobs[0].ID != "j" {
		t.Errorf("%+v, %v", js, err)
	}
	for _, q := range []string{"state=fine", "limit=-1", "limit=0", "since=today"} {
		if _, err := c.Raw(t.Context(), http.MethodGet, "/v1/jobs?"+q, "", nil); api.AsError(err).Code != api.Usage {
			t.Errorf("%s: %v", q, err)
		}
	}
}
