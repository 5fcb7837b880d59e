package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/coveyproject/covey/node/api"
)

// Preview tells what would become of a job now.
func (c *Client) Preview(ctx context.Context, s api.Submit) (api.Preview, error) {
	return call[api.Preview](ctx, c, http.MethodPost, "/v1/jobs?dry_run=1", s)
}

// Renew has the peer sign a job anew, so that it may go on starting tasks.
func (c *Client) Renew(ctx context.Context, id string) (api.Submitted, error) {
	return call[api.Submitted](ctx, c, http.MethodPost, jobPath(id, "/renew"), nil)
}

// Scale gives a service another count.
func (c *Client) Scale(ctx context.Context, id string, count int) (api.Submitted, error) {
	return call[api.Submitted](ctx, c, http.MethodPost, jobPath(id, "/scale"), api.Scale{Count: count})
}

// Rollout pauses, continues or turns back an update.
func (c *Client) Rollout(ctx context.Context, id, action string) (api.JobAnswer, error) {
	return call[api.JobAnswer](ctx, c, http.MethodPost, jobPath(id, "/rollout"), api.RolloutRequest{Action: action})
}

// Retry gives the slots that failed another attempt.
func (c *Client) Retry(ctx context.Context, id string) (api.Retried, error) {
	return call[api.Retried](ctx, c, http.MethodPost, jobPath(id, "/retry"), nil)
}

// Pin has a job kept when it is over, or ends that.
func (c *Client) Pin(ctx context.Context, id string, not bool) (api.JobAnswer, error) {
	q := ""
	if not {
		q = "?not=1"
	}
	return call[api.JobAnswer](ctx, c, http.MethodPost, jobPath(id, "/pin"+q), nil)
}

// Trigger starts a run of a schedule now; the answer has its id.
func (c *Client) Trigger(ctx context.Context, id string) (api.Submitted, error) {
	return call[api.Submitted](ctx, c, http.MethodPost, jobPath(id, "/trigger"), nil)
}

// Rebalance moves tasks of a service to where there are fewer, or tells which.
func (c *Client) Rebalance(ctx context.Context, id string, dryRun bool) (api.Rebalanced, error) {
	q := ""
	if dryRun {
		q = "?dry_run=1"
	}
	return call[api.Rebalanced](ctx, c, http.MethodPost, jobPath(id, "/rebalance")+q, nil)
}

// AllTasks lists a job's tasks with those that are not wanted any more and with earlier attempts.
func (c *Client) AllTasks(ctx context.Context, id string) (api.Tasks, error) {
	return call[api.Tasks](ctx, c, http.MethodGet, jobPath(id, "/tasks?all=1"), nil)
}

// SomeTasks lists a page of a job's tasks.
func (c *Client) SomeTasks(ctx context.Context, id string, q api.TaskQuery) (api.Tasks, error) {
	v := url.Values{"sort": {q.Sort}, "peer": {q.Peer}, "after": {q.After}, "state": q.States}
	if q.Limit > 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	return call[api.Tasks](ctx, c, http.MethodGet, jobPath(id, "/tasks?"+v.Encode()), nil)
}

// JobFile is the job file of a job.
func (c *Client) JobFile(ctx context.Context, id string) (api.JobFile, error) {
	return call[api.JobFile](ctx, c, http.MethodGet, jobPath(id, "/file"), nil)
}
