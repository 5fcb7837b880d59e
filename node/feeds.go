package node

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"covey/internal/limit"
	"covey/node/stdin"
	"covey/taskstate"
)

// mayWithin is how long a peer that asks for the stdin of a task waits for this one to hear that it
// has the task.
const mayWithin = 5 * time.Second

// feeds passes stdins on: from the commands of this machine to wherever their tasks run, and to the
// tasks that run here.
type feeds struct {
	self     taskstate.PeerID
	host     feedsNet
	assigned func(taskstate.TaskID) (taskstate.PeerID, taskstate.Incarnation, uint64, taskstate.Standing)
	reach    func(context.Context, uint64) error // this peer's replica comes to an index
	spools   *stdin.Spools
	server   atomic.Pointer[stdin.Server] // nil until this peer is wired
}

// feedsNet is how stdins travel.
type feedsNet interface {
	limit.Net
	Dial(ctx context.Context, peer, protocol string) (net.Conn, error)
}

// serve lets other peers ask, until the returned function is called.
func (f *feeds) serve(log *slog.Logger) func() {
	s := stdin.Serve(stdin.Config{Net: f.host, Spools: f.spools, May: f.may, Log: log})
	f.server.Store(s)
	return s.Close
}

// may implements stdin.Config.May: a stdin is for the peer that runs the task, by the ledger's
// word.
func (f *feeds) may(ctx context.Context, peer string, q stdin.Request) error {
	ctx, cancel := context.WithTimeout(ctx, mayWithin)
	defer cancel()
	if f.reach(ctx, q.Index) != nil {
		return &stdin.Error{Code: stdin.CodeBusy, Message: "the peer it was submitted to does not know yet which peer runs it"}
	}
	if who, _, _, now := f.assigned(q.Task); now != taskstate.Known || who != peer {
		return &stdin.Error{Code: stdin.CodeNot, Message: "its stdin is for the peer that runs it, and that is another one now"}
	}
	return nil
}

// Copy implements process.Stdin.
func (f *feeds) Copy(ctx context.Context, l taskstate.Launch, at int64, ready func(), put func([]byte) error) error {
	dial := func(ctx context.Context) (net.Conn, error) {
		return f.host.Dial(ctx, l.Job.Submitter, stdin.Protocol)
	}
	if l.Job.Submitter == f.self {
		dial = f.here
	}
	return stdin.Asker{Dial: dial, Ready: ready, Put: put}.Copy(ctx, stdin.Request{Task: l.Task, Index: l.Index, At: at})
}

// here asks this peer itself.
func (f *feeds) here(context.Context) (net.Conn, error) {
	s := f.server.Load()
	if s == nil {
		return nil, errors.New("this peer is starting")
	}
	ask, answer := net.Pipe()
	go s.Answer(f.self, answer) // ends with the stream, and with the server
	return ask, nil
}
