package api_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/coveyproject/covey/node/api"

	"pgregory.net/rapid"
)

// Whatever a person types for an id reaches the call that was meant, as it was typed: never another
// call.
func TestAnIDReachesItsCallHoweverItIsSpelt(t *testing.T) {
	var asked []string
	note := func(what, id string) { asked = append(asked, what+" "+id) }
	b := &fake{
		job: func(id string) (api.JobAnswer, error) { note("job", id); return api.JobAnswer{}, nil },
		follow: func(_ context.Context, id string, _ bool, _ func(api.Progress) error) error {
			note("follow", id)
			return nil
		},
		logs: func(id string, _ api.LogQuery, _ func(api.LogChunk) error) error { note("logs", id); return nil },
	}
	c, _, _ := serve(t, b)
	ctx := t.Context()
	odd := rapid.OneOf(
		rapid.SampledFrom([]string{".", "..", "...", "%2E", "%2e%2e", "../..", "./x", "x/..", "//", "?", "#", "a?dry_run=1", "a b", "ä", "+", "%", "follow", ":", "\\", "\n", "\x00"}),
		rapid.StringN(1, 20, 40).Filter(func(s string) bool { return s != "/" }), // a lone slash no router tells from the end of a path
	)
	check := func(t *rapid.T, id string) {
		asked, b.said = nil, nil
		var errs []error
		ok := func(err error) { errs = append(errs, err) }
		_, err := c.Job(ctx, id)
		ok(err)
		ok(c.Follow(ctx, id, true, func(api.Progress) error { return nil }))
		ok(c.Logs(ctx, id, api.LogQuery{}, func(api.LogChunk) error { return nil }))
		cancelled, err := c.Cancel(ctx, id)
		ok(err)
		ok(c.Remove(ctx, id, api.Removal{}))
		ok(c.Revoke(ctx, id))
		peer, err := c.Peer(ctx, id)
		ok(err)
		drained, err := c.SetAvailability(ctx, id, api.Availability{Availability: api.Paused})
		ok(err)
		if err := errors.Join(errs...); err != nil {
			t.Fatalf("%q: %v", id, err)
		}
		if want := []string{"job " + id, "follow " + id, "logs " + id}; !slices.Equal(asked, want) {
			t.Fatalf("asked %q, want %q", asked, want)
		}
		if want := []string{"remove " + id, "revoke " + id, id + " pause 0 "}; !slices.Equal(b.said, want) {
			t.Fatalf("said %q, want %q", b.said, want)
		}
		if cancelled.Job.ID != id || peer.Peer.ID != id || drained.Peer.ID != id {
			t.Fatalf("%q became %q, %q, %q", id, cancelled.Job.ID, peer.Peer.ID, drained.Peer.ID)
		}
	}
	rapid.Check(t, func(t *rapid.T) { check(t, odd.Draw(t, "id")) })
}

func TestAnAnswerFromElsewhereIsNotFollowed(t *testing.T) {
	c, srv, _ := serve(t, &fake{})
	var asked []string
	srv.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.Path)
		http.Redirect(w, r, "/v1/leave", http.StatusTemporaryRedirect)
	})
	_, err := c.Thaw(t.Context())
	if e := api.AsError(err); e == nil || e.Code != api.Failed || !slices.Equal(asked, []string{"POST /v1/thaw"}) {
		t.Errorf("%v, asked %q", err, asked)
	}
}

func TestWhoGivesUpWhileTheAnswerIsOnItsWayIsToldSo(t *testing.T) {
	c, srv, _ := serve(t, &fake{})
	ctx, giveUp := context.WithCancel(t.Context())
	srv.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(`{"coordinator": "` + strings.Repeat("x", 4<<20))) // more than any buffer on the way: it is being read
		_ = http.NewResponseController(w).Flush()
		giveUp()
		<-r.Context().Done()
	})
	if _, err := c.Peers(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a call: %v", err)
	}
	ctx, giveUp = context.WithCancel(t.Context())
	defer giveUp()
	srv.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(`{"type": "a"}` + "\n" + `{"typ`))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	seen := 0
	err := c.Watch(ctx, "", func(api.Event) error { seen++; giveUp(); return nil })
	if !errors.Is(err, context.Canceled) || seen != 1 {
		t.Errorf("a stream: %v after %d events", err, seen)
	}
}

func TestAPeerThatDiesInItsAnswerIsSaidToHaveGone(t *testing.T) {
	c, srv, _ := serve(t, &fake{})
	for _, body := range []string{`{"type": "a"}` + "\n", `{"type": "a"}` + "\n" + `{"ty`} {
		srv.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(body))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler) // the connection breaks
		})
		seen := 0
		err := c.Watch(t.Context(), "", func(api.Event) error { seen++; return nil })
		if e := api.AsError(err); e == nil || e.Code != api.NoCoordinator || seen != 1 {
			t.Errorf("%q: %v after %d events", body, err, seen)
		}
	}
}
