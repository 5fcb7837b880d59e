package client

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/coveyproject/covey/node/api"
)

// EachTask calls each with a job's tasks as they come, in the order of Tasks, or of AllTasks: a
// million of them need not be held at once. An error of each ends it. What was called before an
// error is part of the answer only.
func (c *Client) EachTask(ctx context.Context, id string, all bool, each func(api.Task) error) error {
	path := "/tasks"
	if all {
		path += "?all=1"
	}
	resp, err := c.do(ctx, http.MethodGet, jobPath(id, path), "", nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	d := json.NewDecoder(resp.Body)
	var stop error
	if err := readTasks(d, func(t api.Task) bool { read(c, &t); stop = each(t); return stop == nil }); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return api.Errorf(api.Failed, "cannot read the peer's answer: %v", err)
	}
	return stop
}

// readTasks reads the answer to its end, or until some says stop: one that was cut off is an error.
func readTasks(d *json.Decoder, some func(api.Task) bool) error {
	if err := expect(d, json.Delim('{'), "tasks", json.Delim('[')); err != nil {
		return err
	}
	for d.More() {
		var t api.Task
		if err := d.Decode(&t); err != nil {
			return err
		}
		if !some(t) {
			return nil
		}
	}
	if err := expect(d, json.Delim(']'), "as_of"); err != nil {
		return err
	}
	if _, err := d.Token(); err != nil {
		return err
	}
	return expect(d, json.Delim('}'))
}

func expect(d *json.Decoder, tokens ...json.Token) error {
	for _, want := range tokens {
		got, err := d.Token()
		if err != nil {
			return err
		}
		if got != want {
			return api.Errorf(api.Failed, "expected %v, got %v", want, got)
		}
	}
	return nil
}
