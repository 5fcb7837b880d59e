package api_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

// changer answers calls that change jobs with what it was asked.
type changer struct{ fake }

func (f *changer) Preview(_ context.Context, s api.Submit) (api.Preview, error) {
	return api.Preview{ID: "preview of " + string(s.Job.ID)}, f.err
}

func (f *changer) Scale(_ context.Context, id string, r api.Scale) (api.Submitted, error) {
	return api.Submitted{ID: id, Updated: true, Changes: []taskstate.Change{{Field: "count", To: fmt.Sprint(r.Count)}}}, f.err
}

func (f *changer) Rollout(_ context.Context, id string, r api.RolloutRequest) (api.JobAnswer, error) {
	return api.JobAnswer{Job: api.Job{ID: id, State: r.Action}}, f.err
}

func (f *changer) Retry(_ context.Context, id string) (api.Retried, error) {
	return api.Retried{ID: id, Retried: 3}, f.err
}

func (f *changer) Rebalance(_ context.Context, id string, dry bool) (api.Rebalanced, error) {
	return api.Rebalanced{ID: id, DryRun: dry}, f.err
}

func (f *changer) AllTasks(_ context.Context, id string) (api.Tasks, error) {
	return api.Tasks{Tasks: []api.Task{{ID: "all of " + id}}}, f.err
}

func TestEveryChangeReachesItsMethodWithItsArguments(t *testing.T) {
	b := &changer{}
	b.submit = func(s api.Submit) (api.Submitted, error) {
		return api.Submitted{ID: "submitted " + string(s.Job.ID)}, nil
	}
	c, _, _ := serve(t, b)
	ctx, job := t.Context(), api.Submit{Job: taskstate.Job{ID: "j", Run: taskstate.Run{Noop: &taskstate.Noop{}}}}
	if p, err := c.Preview(ctx, job); err != nil || p.ID != "preview of j" {
		t.Errorf("preview: %+v, %v", p, err)
	}
	if s, err := c.Submit(ctx, job); err != nil || s.ID != "submitted j" {
		t.Errorf("submit: %+v, %v", s, err)
	}
	for _, id := range []string{"web", "a b", "ä/ö?x=1#y"} {
		if s, err := c.Scale(ctx, id, 7); err != nil || s.ID != id || s.Changes[0].To != "7" {
			t.Errorf("scale: %+v, %v", s, err)
		}
		if a, err := c.Rollout(ctx, id, api.RollBack); err != nil || a.Job.ID != id || a.Job.State != "rollback" {
			t.Errorf("rollout: %+v, %v", a, err)
		}
		if r, err := c.Retry(ctx, id); err != nil || !reflect.DeepEqual(r, api.Retried{ID: id, Retried: 3}) {
			t.Errorf("retry: %+v, %v", r, err)
		}
		for _, dry := range []bool{true, false} {
			if r, err := c.Rebalance(ctx, id, dry); err != nil || r.ID != id || r.DryRun != dry {
				t.Errorf("rebalance: %+v, %v", r, err)
			}
		}
		if ts, err := c.AllTasks(ctx, id); err != nil || ts.Tasks[0].ID != "all of "+id {
			t.Errorf("all tasks: %+v, %v", ts, err)
		}
		if ts, err := c.Tasks(ctx, id); err != nil || ts.Tasks[0].Job != id {
			t.Errorf("tasks: %+v, %v", ts, err)
		}
	}
	b.err = api.Errorf(api.Conflict, "no")
	_, preview := c.Preview(ctx, job)
	_, scale := c.Scale(ctx, "x", 1)
	_, rebalance := c.Rebalance(ctx, "x", false)
	for _, err := range []error{preview, scale, rebalance} {
		if e := (*api.Error)(nil); !errors.As(err, &e) || e.Code != api.Conflict {
			t.Errorf("%v", err)
		}
	}
}

func TestAScaleThatIsNoneIsRefusedBeforeAnybodyIsAsked(t *testing.T) {
	_, _, path := serve(t, &changer{})
	for _, body := range []string{``, `{"count":"many"}`, `{"counts":3}`, `{"count":1}{}`} {
		resp, err := raw(path).Post("http://peer/v1/jobs/web/scale", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close(); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%q: %s", body, resp.Status)
		}
	}
}
