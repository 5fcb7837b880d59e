package api_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
)

// fake answers with what a test gives it. Calls the test does not give an answer to would panic.
type fake struct {
	api.Backend
	submit func(api.Submit) (api.Submitted, error)
	job    func(id string) (api.JobAnswer, error)
	follow func(ctx context.Context, id string, tasks bool, send func(api.Progress) error) error
	logs   func(id string, q api.LogQuery, send func(api.LogChunk) error) error
	watch  func(ctx context.Context, since string, send func(api.Event) error) error
	said   []string // what was asked for by calls without an answer
	err    error
}

func (f *fake) Submit(_ context.Context, s api.Submit) (api.Submitted, error) { return f.submit(s) }
func (f *fake) Job(_ context.Context, id string) (api.JobAnswer, error)       { return f.job(id) }
func (f *fake) Peers(context.Context) (api.Peers, error)                      { return api.Peers{}, f.err }

func (f *fake) Status(context.Context) (api.Status, error) { return api.Status{Name: "one"}, f.err }

func (f *fake) Stats(context.Context) (api.Stats, error) { return api.Stats{Goroutines: 7}, f.err }

func (f *fake) Metrics(_ context.Context, w io.Writer) error {
	if f.err != nil {
		return f.err
	}
	_, err := io.WriteString(w, "covey_jobs 1\n")
	return err
}

func (f *fake) Jobs(context.Context) (api.Jobs, error) {
	return api.Jobs{Jobs: []api.Job{{ID: "j"}}}, f.err
}

func (f *fake) SomeJobs(_ context.Context, q api.JobQuery) (api.Jobs, error) {
	return api.Jobs{Jobs: []api.Job{{ID: fmt.Sprint(q.States, q.Limit, q.Since.Unix())}}}, f.err
}

func (f *fake) Tasks(_ context.Context, id string) (api.Tasks, error) {
	return api.Tasks{Tasks: []api.Task{{Job: id}}}, f.err
}

func (f *fake) Cancel(_ context.Context, id string) (api.Job, error) { return api.Job{ID: id}, f.err }
func (f *fake) Invites(context.Context) (api.Invites, error)         { return api.Invites{}, f.err }
func (f *fake) Invite(_ context.Context, r api.TicketRequest) (api.Ticket, error) {
	return api.Ticket{ID: "t", Secret: r.Roles[0]}, f.err
}
func (f *fake) Revoke(_ context.Context, id string) error { return f.note("revoke " + id) }
func (f *fake) Remove(_ context.Context, peer string, how api.Removal) error {
	if how.Revoke {
		peer += " and its key"
	}
	return f.note("remove " + peer)
}

func (f *fake) OrderedBy(_ context.Context, peer string) (api.Ordered, error) {
	return api.Ordered{Peer: peer}, f.note("ordered by " + peer)
}
func (f *fake) Leave(context.Context) error { return f.note("leave") }
func (f *fake) Down(context.Context) error  { return f.note("down") }
func (f *fake) PlanRecover(context.Context) (api.RecoverPlan, error) {
	return api.RecoverPlan{From: api.Copy{Index: 7}}, f.err
}

func (f *fake) Recover(_ context.Context, r api.Recover) (api.Recovered, error) {
	return api.Recovered{Generation: r.Generation + 1}, f.note("recover")
}
func (f *fake) Block(_ context.Context, b api.Block) error { return f.note("block " + b.Peers[0]) }

func (f *fake) Follow(ctx context.Context, id string, tasks bool, send func(api.Progress) error) error {
	return f.follow(ctx, id, tasks, send)
}

func (f *fake) Logs(_ context.Context, id string, q api.LogQuery, send func(api.LogChunk) error) error {
	return f.logs(id, q, send)
}

func (f *fake) Watch(ctx context.Context, since string, send func(api.Event) error) error {
	return f.watch(ctx, since, send)
}

func (f *fake) note(what string) error {
	f.said = append(f.said, what)
	return f.err
}

// serve puts a backend behind a socket of its own, for as long as the test lasts.
func serve(t *testing.T, b api.Backend) (*client.Client, *http.Server, string) {
	t.Helper()
	srv := &http.Server{Handler: api.NewHandler(b, nil)}
	c, path := serving(t, srv)
	return c, srv, path
}

// serving has a server serve a socket of its own.
func serving(t *testing.T, srv *http.Server) (c *client.Client, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "s")
	l, err := api.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = srv.Serve(l) // ends with Close
	}()
	c = client.New(path)
	t.Cleanup(func() {
		c.Close()
		srv.Close()
		<-ended
	})
	return c, path
}

// raw is an HTTP client that says exactly what a test wants to be said.
func raw(path string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		},
	}}
}
