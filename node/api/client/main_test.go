package client_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/coveyproject/covey/node/api"
)

// data is the data folder of a peer that answers as one does whose job goes well.
var data string

func TestMain(m *testing.M) { os.Exit(withPeer(m.Run)) }

func withPeer(run func() int) int {
	dir, err := os.MkdirTemp("", "covey-client-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	data = dir
	l, err := api.Listen(api.SocketPath(dir))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	s := &http.Server{Handler: api.NewHandler(going{}, nil), ReadHeaderTimeout: time.Minute}
	go func() { _ = s.Serve(l) }() // ends with Close
	defer s.Close()
	return run()
}

// going answers for a job whose tasks all end well. Other calls panic.
type going struct{ api.Backend }

func (going) Submit(_ context.Context, s api.Submit) (api.Submitted, error) {
	if s.Job.Count != 3 {
		return api.Submitted{}, api.Errorf(api.Usage, "the example has 3 tasks, not %d", s.Job.Count)
	}
	return api.Submitted{ID: "k7q2m4x5ab"}, nil
}

func (going) Follow(_ context.Context, _ string, _ bool, send func(api.Progress) error) error {
	job := api.Job{State: "running", Count: 3, Tasks: map[string]int{"complete": 1}}
	if err := send(api.Progress{Job: job}); err != nil {
		return err
	}
	job.State, job.Tasks["complete"] = "complete", 3
	return send(api.Progress{Job: job})
}

func (going) Logs(_ context.Context, id string, _ api.LogQuery, send func(api.LogChunk) error) error {
	for i := 1; i <= 3; i++ {
		if err := send(api.LogChunk{Task: fmt.Sprintf("%s.%d.1", id, i), Stream: "stdout", Data: fmt.Appendf(nil, "hello %d\n", i)}); err != nil {
			return err
		}
	}
	return nil
}
