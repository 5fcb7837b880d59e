package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/internal/golden"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
)

// moment fills times, which are structs of fields that nobody sees.
func moment(v reflect.Value, n int) bool {
	if v.Type() != reflect.TypeFor[time.Time]() {
		return false
	}
	v.Set(reflect.ValueOf(time.Unix(int64(n), 0).UTC()))
	return true
}

// answers are all values that a call takes or gives.
func answers() map[string]any {
	out := map[string]any{}
	for _, v := range []any{
		&api.Status{}, &api.Stats{}, &api.Peers{}, &api.Jobs{}, &api.JobAnswer{}, &api.Tasks{}, &api.Explanation{}, &api.Progress{}, &api.LogChunk{}, &api.Event{},
		&api.Submitted{}, &api.Preview{}, &api.Retried{}, &api.Rebalanced{}, &api.Ticket{}, &api.TicketRequest{}, &api.Invites{}, &api.Thawed{}, &api.RecoverPlan{},
		&api.Recover{}, &api.Recovered{}, &api.Scale{}, &api.RolloutRequest{}, &api.Block{}, &api.PeerAnswer{}, &api.Error{}, &api.KeptFiles{}, &api.Trust{}, &api.TrustTried{}, &api.Grid{},
		&api.Timeline{}, &api.Failures{}, &api.Story{}, &api.Links{}, &api.Checkup{},
	} {
		golden.Fill(reflect.ValueOf(v).Elem(), 1, moment)
		out[reflect.TypeOf(v).Elem().Name()] = v
	}
	return out
}

// Programs read these words: one that is renamed, or is gone, breaks them.
func TestEveryAnswerKeepsItsWords(t *testing.T) {
	var got strings.Builder
	all := answers()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		b, err := json.Marshal(all[name])
		if err != nil {
			t.Fatal(name, err)
		}
		fmt.Fprintf(&got, "{%q: %s}\n", name, b)
		back := reflect.New(reflect.TypeOf(all[name]).Elem()).Interface()
		if err := json.Unmarshal(b, back); err != nil || !reflect.DeepEqual(back, all[name]) {
			t.Errorf("%s is read as %+v, was %+v: %v", name, back, all[name], err)
		}
	}
	if err := golden.Check("testdata/answers.jsonl", got.String()); err != nil {
		t.Fatal(err)
	}
}

// teller answers what fake does not.
type teller struct {
	fake
	story func(id string) (api.Explanation, error)
}

func (f *teller) Explain(_ context.Context, id string) (api.Explanation, error) { return f.story(id) }

func TestAStoryIsAskedForByItsID(t *testing.T) {
	want := *answers()["Explanation"].(*api.Explanation)
	c, _, _ := serve(t, &teller{story: func(id string) (api.Explanation, error) {
		if id != "job.3" {
			return api.Explanation{}, api.Errorf(api.NotFound, "no %s", id)
		}
		return want, nil
	}})
	if got, err := c.Explain(t.Context(), "job.3"); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	var e *api.Error
	if _, err := c.Explain(t.Context(), ".."); !errors.As(err, &e) || e.Code != api.NotFound || e.Message != "no .." {
		t.Errorf("%v", err)
	}
}

func TestARecoveryIsPlannedAndThenDoneAsPlanned(t *testing.T) {
	f := &fake{}
	c, _, _ := serve(t, f)
	plan, err := c.PlanRecover(t.Context())
	if err != nil || plan.From.Index != 7 || len(f.said) != 0 {
		t.Errorf("planned %+v, %v; done: %v", plan, err, f.said)
	}
	got, err := c.Recover(t.Context(), api.Recover{Generation: 3})
	if err != nil || got.Generation != 4 || !slices.Equal(f.said, []string{"recover"}) {
		t.Errorf("%+v, %v; done: %v", got, err, f.said)
	}
	f.err = api.Errorf(api.Refused, "somebody coordinates")
	if _, err := c.PlanRecover(t.Context()); err == nil || api.AsError(err).Code != api.Refused {
		t.Errorf("%v", err)
	}
}

func TestWhatIsNoErrorOfOursIsAFailure(t *testing.T) {
	if e := api.AsError(nil); e != nil {
		t.Errorf("no error became %v", e)
	}
	if e := api.AsError(errors.New("x")); e.Code != api.Failed || e.Message != "x" || e.Exit() != 1 {
		t.Errorf("%+v", e)
	}
	inner := api.Errorf(api.Conflict, "it has %d", 2)
	if e := api.AsError(fmt.Errorf("outer: %w", inner)); e != inner || e.Exit() != 6 || e.Error() != "it has 2" {
		t.Errorf("%+v", e)
	}
	if n := (&api.Error{Code: "of a newer peer"}).Exit(); n != 1 {
		t.Errorf("a code nobody knows here ends with %d", n)
	}
}

// strange is a server that says exactly what a test wants.
func strange(t *testing.T, status int, contentLength, body string) *client.Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if contentLength != "" {
			w.Header().Set("Content-Length", contentLength)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = srv.Serve(l) }()
	c := client.New(path)
	t.Cleanup(func() { c.Close(); srv.Close(); <-ended })
	return c
}

func TestALineThatIsNoneEndsAStreamWithAReason(t *testing.T) {
	for what, c := range map[string]struct {
		body, says string
		heard      int
		code       api.Code
	}{
		"all is well":             {`{"job":{"id":"a"}}` + "\n" + `{"job":{"id":"b"}}` + "\n", "", 2, ""},
		"nothing at all":          {"", "", 0, ""},
		"another shape":           {`{"job":{"id":"a"}}` + "\n" + `{"job":7}` + "\n", "cannot read the peer's answer", 1, api.Failed},
		"no JSON":                 {`{"job":{"id":"a"}}` + "\nhello\n", "went away", 1, api.NoCoordinator},
		"its own error":           {`{"job":{"id":"a"}}` + "\n" + `{"error":{"code":"conflict","message":"it changed"}}` + "\n", "it changed", 1, api.Conflict},
		"an error that says none": {`{"error":{}}` + "\n", "", 0, ""},
		"no error at all":         {`{"error":null}` + "\n", "", 1, ""},
	} {
		heard := 0
		err := strange(t, 200, "", c.body).Follow(t.Context(), "j", false, func(api.Progress) error { heard++; return nil })
		if what == "an error that says none" {
			if err == nil || api.AsError(err).Exit() != 1 {
				t.Errorf("%s: %v", what, err)
			}
			continue
		}
		if (err == nil) != (c.says == "") || err != nil && (!strings.Contains(err.Error(), c.says) || api.AsError(err).Code != c.code) || heard != c.heard {
			t.Errorf("%s: %v after %d lines, want %q after %d", what, err, heard, c.says, c.heard)
		}
	}
}

func TestAListenerThatIsNoPeerIsSaidToBeNone(t *testing.T) {
	for what, c := range map[string]struct {
		status       int
		length, body string
		says         string
	}{
		"a reason":            {409, "", `{"error":{"code":"conflict","message":"it is so"}}`, "it is so"},
		"none":                {500, "", "", "answered 500 Internal Server Error and gave no reason"},
		"a page":              {404, "", "<html>", "answered 404 Not Found and gave no reason"},
		"success without any": {200, "", "", "cannot read the peer's answer: EOF"},
		"half of it":          {200, "100", `{"name":"on`, "cannot read the peer's answer"},
	} {
		if _, err := strange(t, c.status, c.length, c.body).Status(t.Context()); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", what, err, c.says)
		}
	}
}
