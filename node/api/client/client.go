// Package client asks the API of a peer on this machine, by the socket in its data folder.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/coveyproject/covey/node/api"
)

// Client asks a peer on this machine. It is safe for concurrent use.
type Client struct {
	// Start is what to do where no peer answers, as messages say it.
	Start string

	// Read, if it is set, is given a pointer to each value of an answer, errors included, before
	// the caller has it.
	Read func(value any)

	http   *http.Client
	socket string
	token  string // path of the file with the token
}

// Start is what to do where no peer answers, if nobody knows better.
const Start = "start one with `peer up`"

// dialTimeout bounds connecting to a socket on this machine.
const dialTimeout = 2 * time.Second

// Of asks the peer with this data folder. Nothing is dialled yet.
func Of(data string) *Client {
	c := New(api.FindSocket(data))
	c.token = api.TokenPath(data)
	return c
}

// New asks the peer that listens on socket. Nothing is dialled yet.
func New(socket string) *Client {
	t := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			if err := api.CheckFolder(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
			d := net.Dialer{Timeout: dialTimeout}
			return d.DialContext(ctx, "unix", socket)
		},
		MaxIdleConnsPerHost: 64,
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // no call becomes another one
	return &Client{Start: Start, http: &http.Client{Transport: t, CheckRedirect: stay}, socket: socket, token: api.TokenPath(filepath.Dir(socket))}
}

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Raw asks as an HTTP client would, with a body of a media type; the answer's body must be closed.
func (c *Client) Raw(ctx context.Context, method, path, media string, body io.Reader) (io.ReadCloser, error) {
	resp, err := c.do(ctx, method, path, media, body)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// do asks. A body that can be read goes as it is, and may be without end; any other goes as JSON.
func (c *Client) do(ctx context.Context, method, path, media string, body any) (*http.Response, error) {
	token := api.ReadToken(c.token) // another one after each start of the peer
	resp, err := c.show(ctx, token, method, path, media, body)
	if _, once := body.(io.Reader); err == nil || once || api.AsError(err).Code != api.Refused {
		return resp, err
	}
	if now := api.ReadToken(c.token); now != token { // the peer was started between reading it and asking
		return c.show(ctx, now, method, path, media, body)
	}
	return nil, err
}

// show asks with a token.
func (c *Client) show(ctx context.Context, token, method, path, media string, body any) (*http.Response, error) {
	r, _ := body.(io.Reader)
	if r == nil && body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		r = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://peer"+path, r)
	if err != nil {
		return nil, err
	}
	if media != "" {
		req.Header.Set("Content-Type", media)
	}
	if token != "" {
		req.Header.Set("Authorization", api.Bearer+token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, c.unreachable(err)
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	var e api.ErrorBody
	if err := json.NewDecoder(io.LimitReader(resp.Body, api.MaxBody)).Decode(&e); err != nil || e.Error == nil {
		return nil, api.Errorf(api.Failed, "the peer answered %s and gave no reason", resp.Status)
	}
	read(c, e.Error)
	return nil, e.Error
}

func read(c *Client, value any) {
	if c.Read != nil {
		c.Read(value)
	}
}

func (c *Client) unreachable(err error) error {
	var op *net.OpError
	if refused, ok := errors.AsType[*api.Error](err); ok {
		return refused
	}
	if errors.As(err, &op) && op.Op == "dial" {
		if errors.Is(err, fs.ErrPermission) {
			return api.Errorf(api.Refused, "the peer at %s belongs to another user: %v; type this as that user", c.socket, op.Err)
		}
		return api.Errorf(api.NoCoordinator, "no peer answers at %s; %s", c.socket, c.Start)
	}
	return api.Errorf(api.NoCoordinator, "the peer at %s went away before it answered; see whether it runs with `peer status`, start it with `peer up`", c.socket)
}

func call[T any](ctx context.Context, c *Client, method, path string, body any) (v T, err error) {
	resp, err := c.do(ctx, method, path, "", body)
	if err != nil {
		return v, err
	}
	defer resp.Body.Close()
	return decode[T](ctx, c, resp.Body)
}

// decode reads the one JSON value of an answer.
func decode[T any](ctx context.Context, c *Client, r io.Reader) (v T, err error) {
	if err := json.NewDecoder(r).Decode(&v); err != nil {
		if ctx.Err() != nil {
			return v, ctx.Err()
		}
		return v, api.Errorf(api.Failed, "cannot read the peer's answer: %v", err)
	}
	read(c, &v)
	return v, nil
}

func stream[T any](ctx context.Context, c *Client, path string, each func(T) error) error {
	resp, err := c.do(ctx, http.MethodGet, path, "", nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	d := json.NewDecoder(resp.Body)
	for {
		var raw json.RawMessage
		if err := d.Decode(&raw); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return c.unreachable(err)
		}
		if e, ok := streamError(raw); ok {
			read(c, e)
			return e
		}
		var v T
		if err := json.Unmarshal(raw, &v); err != nil {
			return api.Errorf(api.Failed, "cannot read the peer's answer: %v", err)
		}
		read(c, &v)
		if err := each(v); err != nil {
			return err
		}
	}
}

// streamError recognises the last line of a stream that failed: an object with nothing but an error
// in it.
func streamError(raw json.RawMessage) (*api.Error, bool) {
	if !bytes.HasPrefix(raw, []byte(`{"error":`)) {
		return nil, false
	}
	var e api.ErrorBody
	if json.Unmarshal(raw, &e) != nil || e.Error == nil {
		return nil, false
	}
	return e.Error, true
}

// segment is an id as one part of a path, whatever a person typed: "." and ".." would lead to
// another call.
func segment(id string) string {
	if strings.Trim(id, ".") == "" {
		return strings.Repeat("%2E", len(id))
	}
	return url.PathEscape(id)
}

func jobPath(id, rest string) string { return "/v1/jobs/" + segment(id) + rest }

// Submit hands in a job.
func (c *Client) Submit(ctx context.Context, s api.Submit) (api.Submitted, error) {
	return call[api.Submitted](ctx, c, http.MethodPost, "/v1/jobs", s)
}

// Cancel stops a job.
func (c *Client) Cancel(ctx context.Context, id string) (api.JobAnswer, error) {
	return call[api.JobAnswer](ctx, c, http.MethodPost, jobPath(id, "/cancel"), nil)
}

// Jobs lists all jobs the peer knows, newest first.
func (c *Client) Jobs(ctx context.Context) (api.Jobs, error) {
	return call[api.Jobs](ctx, c, http.MethodGet, "/v1/jobs", nil)
}

// SomeJobs lists jobs that are asked for, newest first.
func (c *Client) SomeJobs(ctx context.Context, q api.JobQuery) (api.Jobs, error) {
	v := url.Values{}
	if len(q.States) > 0 {
		v.Set("state", strings.Join(q.States, ","))
	}
	if !q.Since.IsZero() {
		v.Set("since", q.Since.Format(time.RFC3339Nano))
	}
	if q.Limit > 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	return call[api.Jobs](ctx, c, http.MethodGet, "/v1/jobs?"+v.Encode(), nil)
}

// Job tells about one job.
func (c *Client) Job(ctx context.Context, id string) (api.JobAnswer, error) {
	return call[api.JobAnswer](ctx, c, http.MethodGet, jobPath(id, ""), nil)
}

// Tasks lists a job's tasks by slot.
func (c *Client) Tasks(ctx context.Context, id string) (api.Tasks, error) {
	return call[api.Tasks](ctx, c, http.MethodGet, jobPath(id, "/tasks"), nil)
}

// Explain tells the story of a job or task.
func (c *Client) Explain(ctx context.Context, id string) (api.Explanation, error) {
	return call[api.Explanation](ctx, c, http.MethodGet, "/v1/explain/"+segment(id), nil)
}

// Follow calls each with the job's progress until it has ended.
func (c *Client) Follow(ctx context.Context, id string, tasks bool, each func(api.Progress) error) error {
	q := ""
	if tasks {
		q = "?tasks=1"
	}
	return stream(ctx, c, jobPath(id, "/follow")+q, each)
}

// Logs calls each with the output of a job's tasks.
func (c *Client) Logs(ctx context.Context, id string, q api.LogQuery, each func(api.LogChunk) error) error {
	v := url.Values{}
	if q.Follow {
		v.Set("follow", "1")
	}
	if q.Slot > 0 {
		v.Set("slot", strconv.Itoa(q.Slot))
	}
	if q.Task != "" {
		v.Set("task", q.Task)
	}
	if q.Stream != "" {
		v.Set("stream", q.Stream)
	}
	if q.Tail > 0 {
		v.Set("tail", strconv.Itoa(q.Tail))
	}
	if !q.Since.IsZero() {
		v.Set("since", q.Since.Format(time.RFC3339Nano))
	}
	if q.Times {
		v.Set("times", "1")
	}
	return stream(ctx, c, jobPath(id, "/logs?"+v.Encode()), each)
}

// Stdin passes on what the task of a job is to read, until r or ctx ends. An error of r's is told
// to the task, which fails.
func (c *Client) Stdin(ctx context.Context, id string, r io.Reader) error {
	resp, err := c.do(ctx, http.MethodPost, jobPath(id, "/stdin"), "", r)
	if err == nil {
		_ = resp.Body.Close()
	}
	return err
}

// Peers lists everybody the peer knows.
func (c *Client) Peers(ctx context.Context) (api.Peers, error) {
	return call[api.Peers](ctx, c, http.MethodGet, "/v1/peers", nil)
}

// Status tells about the peer itself.
func (c *Client) Status(ctx context.Context) (api.Status, error) {
	return call[api.Status](ctx, c, http.MethodGet, "/v1/status", nil)
}

// Stats tells what the peer costs.
func (c *Client) Stats(ctx context.Context) (api.Stats, error) {
	return call[api.Stats](ctx, c, http.MethodGet, "/v1/stats", nil)
}

// Metrics copies numbers about the peer to w, in MetricsFormat.
func (c *Client) Metrics(ctx context.Context, w io.Writer) error {
	resp, err := c.do(ctx, http.MethodGet, "/metrics", "", nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(w, resp.Body)
	return err
}

// Watch calls each with every event after the token since.
func (c *Client) Watch(ctx context.Context, since string, each func(api.Event) error) error {
	return stream(ctx, c, "/v1/watch?since="+url.QueryEscape(since), each)
}

// Invite makes a ticket.
func (c *Client) Invite(ctx context.Context, r api.TicketRequest) (api.Ticket, error) {
	return call[api.Ticket](ctx, c, http.MethodPost, "/v1/tickets", r)
}

// Invites lists the tickets made.
func (c *Client) Invites(ctx context.Context) (api.Invites, error) {
	return call[api.Invites](ctx, c, http.MethodGet, "/v1/tickets", nil)
}

// Revoke ends a ticket.
func (c *Client) Revoke(ctx context.Context, id string) error {
	_, err := call[struct{}](ctx, c, http.MethodDelete, "/v1/tickets/"+segment(id), nil)
	return err
}

// Remove ends a peer's membership.
func (c *Client) Remove(ctx context.Context, peer string, how api.Removal) error {
	path := "/v1/peers/" + segment(peer)
	if how.Revoke {
		path += "?revoke=true"
	}
	_, err := call[struct{}](ctx, c, http.MethodDelete, path, nil)
	return err
}

// OrderedBy lists the jobs that a peer's key ordered and that are not over.
func (c *Client) OrderedBy(ctx context.Context, peer string) (api.Ordered, error) {
	return call[api.Ordered](ctx, c, http.MethodGet, "/v1/peers/"+segment(peer)+"/ordered", nil)
}

// Thaw ends a freeze of replacement.
func (c *Client) Thaw(ctx context.Context) (api.Thawed, error) {
	return call[api.Thawed](ctx, c, http.MethodPost, "/v1/thaw", nil)
}

// Leave ends this peer's own membership and stops it.
func (c *Client) Leave(ctx context.Context) error {
	_, err := call[struct{}](ctx, c, http.MethodPost, "/v1/leave", nil)
	return err
}

// Down stops this peer; it will be back.
func (c *Client) Down(ctx context.Context) error {
	_, err := call[struct{}](ctx, c, http.MethodPost, "/v1/down", nil)
	return err
}

// PlanRecover tells from which copy Recover would make a new ledger.
func (c *Client) PlanRecover(ctx context.Context) (api.RecoverPlan, error) {
	return call[api.RecoverPlan](ctx, c, http.MethodGet, "/v1/recover", nil)
}

// Recover makes a new ledger from the copy that PlanRecover named, or a newer one.
func (c *Client) Recover(ctx context.Context, r api.Recover) (api.Recovered, error) {
	return call[api.Recovered](ctx, c, http.MethodPost, "/v1/recover", r)
}

// Block cuts the peer off from others, and slows it down (testnets only).
func (c *Client) Block(ctx context.Context, b api.Block) error {
	_, err := call[struct{}](ctx, c, http.MethodPost, "/v1/testnet/block", b)
	return err
}

// Story lists the newest of what happened that is not about single tasks.
func (c *Client) Story(ctx context.Context, limit int) (api.Story, error) {
	return call[api.Story](ctx, c, http.MethodGet, fmt.Sprint("/v1/story?limit=", limit), nil)
}
