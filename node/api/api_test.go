package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
	"github.com/coveyproject/covey/taskstate"
)

func TestEveryCodeTravelsFromTheBackendToTheExitCode(t *testing.T) {
	b := &fake{}
	c, _, _ := serve(t, b)
	for code, exit := range map[api.Code]int{
		api.Failed: 1, api.Usage: 2, api.NotFound: 3, api.NoCoordinator: 4, api.TimedOut: 5, api.Conflict: 6, api.Refused: 7,
	} {
		b.err = fmt.Errorf("wrapped: %w", api.Errorf(code, "why %s", code))
		_, err := c.Peers(t.Context())
		var e *api.Error
		if !errors.As(err, &e) || e.Code != code || e.Message != "why "+string(code) || e.Exit() != exit {
			t.Errorf("%s came out as %#v, want exit %d", code, err, exit)
		}
	}
	b.err = errors.New("plain")
	_, err := c.Peers(t.Context())
	if e := api.AsError(err); e.Code != api.Failed || e.Message != "plain" || e.Exit() != 1 {
		t.Errorf("an error without a code came out as %#v, want failed", err)
	}
}

func TestEveryCallReachesItsMethodWithItsArguments(t *testing.T) {
	b := &fake{
		submit: func(s api.Submit) (api.Submitted, error) {
			return api.Submitted{ID: string(s.Job.ID), Held: true, Note: string(s.Job.Run.Process.Script)}, nil
		},
		job: func(id string) (api.JobAnswer, error) { return api.JobAnswer{Job: api.Job{ID: id}}, nil },
	}
	c, _, _ := serve(t, b)
	ctx := t.Context()
	job := taskstate.Job{ID: "id", Run: taskstate.Run{Process: &taskstate.Process{Script: []byte("#!")}}}
	if s, err := c.Submit(ctx, api.Submit{Job: job}); err != nil || !reflect.DeepEqual(s, api.Submitted{ID: "id", Held: true, Note: "#!"}) {
		t.Errorf("submit: %+v, %v", s, err)
	}
	// An id may be whatever a person types.
	for _, id := range []string{"last", "a b", "ä/ö?x=1#y", "%2f"} {
		if a, err := c.Job(ctx, id); err != nil || a.Job.ID != id {
			t.Errorf("job %q became %q, %v", id, a.Job.ID, err)
		}
	}
	if s, err := c.Status(ctx); err != nil || s.Name != "one" {
		t.Errorf("status: %+v, %v", s, err)
	}
	if s, err := c.Stats(ctx); err != nil || s.Goroutines != 7 {
		t.Errorf("stats: %+v, %v", s, err)
	}
	if j, err := c.Jobs(ctx); err != nil || len(j.Jobs) != 1 {
		t.Errorf("jobs: %+v, %v", j, err)
	}
	if j, err := c.Tasks(ctx, "x"); err != nil || j.Tasks[0].Job != "x" {
		t.Errorf("tasks: %+v, %v", j, err)
	}
	if a, err := c.Cancel(ctx, "x"); err != nil || a.Job.ID != "x" {
		t.Errorf("cancel: %+v, %v", a, err)
	}
	if k, err := c.Invite(ctx, api.TicketRequest{Roles: []string{"worker"}}); err != nil || k.Secret != "worker" {
		t.Errorf("ticket: %+v, %v", k, err)
	}
	if _, err := c.Invites(ctx); err != nil {
		t.Error(err)
	}
	err := errors.Join(c.Revoke(ctx, "t"), c.Remove(ctx, "p/q", api.Removal{}), c.Remove(ctx, "p", api.Removal{Revoke: true}), c.Leave(ctx), c.Down(ctx), c.Block(ctx, api.Block{Peers: []string{"b"}}))
	if want := []string{"revoke t", "remove p/q", "remove p and its key", "leave", "down", "block b"}; err != nil || !slices.Equal(b.said, want) {
		t.Errorf("orders came as %q, %v; want %q", b.said, err, want)
	}
}

func TestAStreamThatFailsInTheMiddleEndsWithTheReason(t *testing.T) {
	b := &fake{}
	c, srv, _ := serve(t, b)
	b.follow = func(_ context.Context, id string, tasks bool, send func(api.Progress) error) error {
		if err := send(api.Progress{Job: api.Job{ID: id, State: fmt.Sprint(tasks)}}); err != nil {
			return err
		}
		return api.Errorf(api.NotFound, "it is gone")
	}
	var got []string
	err := c.Follow(t.Context(), "j", true, func(p api.Progress) error {
		got = append(got, p.Job.ID+" "+p.Job.State)
		return nil
	})
	if e := api.AsError(err); e == nil || e.Code != api.NotFound || !slices.Equal(got, []string{"j true"}) {
		t.Errorf("got %q and %v, want the one line and not_found", got, err)
	}

	// Before the first line it is a plain answer.
	b.watch = func(context.Context, string, func(api.Event) error) error {
		return api.Errorf(api.Usage, "no such token")
	}
	if e := api.AsError(c.Watch(t.Context(), "x", nil)); e == nil || e.Code != api.Usage {
		t.Errorf("got %v, want usage", e)
	}

	// A server that dies is not the end of the stream.
	b.watch = func(ctx context.Context, since string, send func(api.Event) error) error {
		_ = send(api.Event{Seq: 1, Token: since})
		<-ctx.Done()
		return ctx.Err()
	}
	var tokens []string
	err = c.Watch(t.Context(), "a+b c", func(e api.Event) error {
		tokens = append(tokens, e.Token)
		return srv.Close()
	})
	if e := api.AsError(err); e == nil || e.Code != api.NoCoordinator || !strings.Contains(e.Message, "went away") || !slices.Equal(tokens, []string{"a+b c"}) {
		t.Errorf("got %q and %v, want the token and that the peer went away", tokens, err)
	}
}

func TestAReaderThatHasEnoughEndsTheStreamOnBothSides(t *testing.T) {
	ended := make(chan struct{})
	b := &fake{watch: func(ctx context.Context, _ string, send func(api.Event) error) error {
		defer close(ended)
		_ = send(api.Event{Seq: 1})
		<-ctx.Done()
		return nil
	}}
	c, _, _ := serve(t, b)
	enough := errors.New("enough")
	if err := c.Watch(t.Context(), "", func(api.Event) error { return enough }); !errors.Is(err, enough) {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Fatal("the backend was not told that nobody reads any more")
	}

	ctx, cancel := context.WithCancel(t.Context())
	b.follow = func(ctx context.Context, _ string, _ bool, send func(api.Progress) error) error {
		_ = send(api.Progress{})
		<-ctx.Done()
		return nil
	}
	err := c.Follow(ctx, "j", false, func(api.Progress) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was cancelled", err)
	}
}

func TestALogKeepsItsBytesAndItsErrors(t *testing.T) {
	all := []byte{0, 255, '\n', '{', '"'}
	var asked api.LogQuery
	b := &fake{logs: func(id string, q api.LogQuery, send func(api.LogChunk) error) error {
		asked = q
		_ = send(api.LogChunk{Task: id, Stream: "stdout", Data: all})
		return send(api.LogChunk{Task: id, EOF: true, Error: api.Errorf(api.NoCoordinator, "unreachable")})
	}}
	c, _, path := serve(t, b)
	q := api.LogQuery{Follow: true, Slot: 3, Task: "j.3.1", Stream: "stdout"}
	var got []api.LogChunk
	err := c.Logs(t.Context(), "j", q, func(ch api.LogChunk) error { got = append(got, ch); return nil })
	if err != nil || asked != q {
		t.Fatalf("asked for %+v, %v; want %+v", asked, err, q)
	}
	if len(got) != 2 || string(got[0].Data) != string(all) || got[1].Error == nil || got[1].Error.Code != api.NoCoordinator {
		t.Errorf("got %+v", got)
	}
	if code, e := say(t, path, http.MethodGet, "/v1/jobs/j/logs?slot=0", ""); code != http.StatusBadRequest || e.Code != api.Usage {
		t.Errorf("slot 0: %d %v", code, e)
	}
}

// say sends a request as it stands and reads the error that comes back.
func say(t *testing.T, path, method, url, body string) (int, *api.Error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://peer"+url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	h := raw(path)
	defer h.CloseIdleConnections()
	resp, err := h.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	var v struct{ Error *api.Error }
	if err := json.Unmarshal(b, &v); err != nil || v.Error == nil {
		t.Fatalf("%s %s: %s, %q is no error object", method, url, resp.Status, b)
	}
	return resp.StatusCode, v.Error
}

func TestWhatCannotBeMeantIsRefusedWithItsReason(t *testing.T) {
	_, _, path := serve(t, &fake{}) // nothing below may reach the backend
	big := `{"job":{"name":"` + strings.Repeat("x", api.MaxBody) + `"}}`
	for _, x := range []struct {
		method, url, body string
		status            int
		code              api.Code
		says              string
	}{
		{"POST", "/v1/jobs", ``, 400, api.Usage, "EOF"},
		{"POST", "/v1/jobs", `{"job":{"cuont":1}}`, 400, api.Usage, `unknown field "cuont"`},
		{"POST", "/v1/jobs", `{"job":{"count":"many"}}`, 400, api.Usage, "count"},
		{"POST", "/v1/jobs", `{"job":{}} {"job":{}}`, 400, api.Usage, "something follows"},
		{"POST", "/v1/jobs", `{"job":`, 400, api.Usage, "unexpected EOF"},
		{"POST", "/v1/jobs", big, 400, api.Usage, "larger than"},
		{"POST", "/v1/tickets", `{"expires":"soon"}`, 400, api.Usage, "expires"},
		{"GET", "/v1/nothing", ``, 404, api.NotFound, "no such call: GET /v1/nothing"},
		{"DELETE", "/v1/jobs", ``, 404, api.NotFound, "no such call: DELETE /v1/jobs"},
		{"GET", "/", ``, 404, api.NotFound, "another version"},
	} {
		code, e := say(t, path, x.method, x.url, x.body)
		if code != x.status || e.Code != x.code || !strings.Contains(e.Message, x.says) {
			t.Errorf("%s %s %.40s: %d %s %q, want %d %s … %q", x.method, x.url, x.body, code, e.Code, e.Message, x.status, x.code, x.says)
		}
	}
}

func TestAnAnswerThatIsNoAnswerIsAnError(t *testing.T) {
	_, srv, path := serve(t, &fake{})
	c := client.New(path)
	defer c.Close()
	for _, x := range []struct{ status, body, says string }{
		{"200", `not json`, "cannot read the peer's answer"},
		{"200", ``, "cannot read the peer's answer"},
		{"500", `not json`, "gave no reason"},
		{"500", `{}`, "gave no reason"},
	} {
		srv.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if x.status == "500" {
				w.WriteHeader(500)
			}
			_, _ = io.WriteString(w, x.body)
		})
		_, err := c.Peers(t.Context())
		if e := api.AsError(err); e == nil || e.Code != api.Failed || !strings.Contains(e.Message, x.says) {
			t.Errorf("%s %q: %v, want %q", x.status, x.body, err, x.says)
		}
	}
}
