package stdin

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/internal/limit"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

// mayWithin is how long a peer that asks for the stdin of a task waits for this one to hear that it
// has the task.
const mayWithin = 5 * time.Second

// Feeds passes stdins on: from the commands of this machine to wherever their tasks run, and to the
// tasks that run here.
type Feeds struct {
	Self    taskstate.PeerID
	Net     FeedsNet
	Spools  *Spools
	Replica *ledger.Replica
	Reach   func(context.Context, uint64) error // this peer's replica comes to an index
	Held    func(taskstate.JobID) bool          // the job waits here for a coordinator
	Current func() bool                         // the replica can be believed when it does not know a job
	Log     *slog.Logger

	server atomic.Pointer[Server] // nil until this peer is wired
}

// FeedsNet is how stdins travel.
type FeedsNet interface {
	limit.Net
	Dial(ctx context.Context, peer, protocol string) (net.Conn, error)
}

// Serve lets other peers ask, until the returned function is called.
func (f *Feeds) Serve() func() {
	s := Serve(Config{Net: f.Net, Spools: f.Spools, May: f.may, Log: f.Log})
	f.server.Store(s)
	return s.Close
}

// may implements Config.May: a stdin is for the peer that runs the task, by the ledger's word.
func (f *Feeds) may(ctx context.Context, peer string, q Request) error {
	ctx, cancel := context.WithTimeout(ctx, mayWithin)
	defer cancel()
	if f.Reach(ctx, q.Index) != nil {
		return &Error{Code: CodeBusy, Message: "the peer it was submitted to does not know yet which peer runs it"}
	}
	if who, _, _, now := f.Replica.Assigned(q.Task); now != taskstate.Known || who != peer {
		return &Error{Code: CodeNot, Message: "its stdin is for the peer that runs it, and that is another one now"}
	}
	return nil
}

// Stdin implements api.JobBackend.
func (f *Feeds) Stdin(ctx context.Context, id string, r io.Reader) error {
	err := f.Spools.Give(ctx, taskstate.JobID(id), r)
	var told *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &told):
		return api.Errorf(api.Conflict, "%s", told.Message)
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return api.Errorf(api.Failed, "the stdin of job %s was not passed on to its end: %v", id, err)
}

// Forget lets go of the stdins of jobs that nobody will run.
func (f *Feeds) Forget() {
	f.Spools.Forget(func(id taskstate.JobID) (over bool) {
		over = !f.Held(id)
		f.Replica.Read(func(s *ledger.State) {
			if j, ok := s.Job(id); ok {
				_, over = j.Ended()
			} else if !f.Current() {
				over = false
			}
		})
		return over
	})
}

// Copy implements process.Stdin.
func (f *Feeds) Copy(ctx context.Context, l taskstate.Launch, at int64, ready func(), put func([]byte) error) error {
	dial := func(ctx context.Context) (net.Conn, error) {
		return f.Net.Dial(ctx, l.Job.Submitter, Protocol)
	}
	if l.Job.Submitter == f.Self {
		dial = f.here
	}
	return Asker{Dial: dial, Ready: ready, Put: put}.Copy(ctx, Request{Task: l.Task, Index: l.Index, At: at})
}

// here asks this peer itself.
func (f *Feeds) here(context.Context) (net.Conn, error) {
	s := f.server.Load()
	if s == nil {
		return nil, errors.New("this peer is starting")
	}
	ask, answer := net.Pipe()
	go s.Answer(f.Self, answer) // ends with the stream, and with the server
	return ask, nil
}
