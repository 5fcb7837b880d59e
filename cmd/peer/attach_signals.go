package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
)

// Exit codes of a command that a signal ended, as shells give them.
const (
	interruptCode  = 128 + int(syscall.SIGINT)
	brokenPipeCode = 128 + 13 // SIGPIPE
	terminateCode  = 128 + int(syscall.SIGTERM)
)

const (
	cancelTime  = 5 * time.Second        // how long a command that is being ended tries to cancel its job
	cancelRetry = 200 * time.Millisecond // between two tries
)

// hearSignals delivers Ctrl-C, a hang-up and SIGTERM to a channel that holds a few, and makes a
// write to a pipe without a reader fail. None of them ends the process.
func hearSignals() (signals chan os.Signal, stop func()) {
	signals, pipes := make(chan os.Signal, 4), make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGHUP, syscall.SIGTERM)
	signal.Notify(pipes, syscall.SIGPIPE)
	return signals, func() { signal.Stop(signals); signal.Stop(pipes) }
}

// submitHeard submits a job. A signal that arrives meanwhile waits in the channel for the job's id,
// so that no accepted job is left running unnoticed; a second one gives up.
func submitHeard(ctx context.Context, cl *client.Client, s api.Submit, signals chan os.Signal) (sub api.Submitted, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		sub, err = cl.Submit(ctx, s)
	}()
	var early []os.Signal
	for {
		select {
		case s := <-signals:
			if early = append(early, s); len(early) > 1 {
				cancel()
				<-done
				return sub, api.Errorf(api.TimedOut, "interrupted while the job was being submitted: see `peer jobs` for whether it was accepted")
			}
		case <-done:
			for _, s := range early {
				signals <- s
			}
			return sub, err
		}
	}
}

// endedBy is the exit code of the signal that ended this command; 0: none did.
func (a *attached) endedBy() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ended
}

func (a *attached) endBy(code int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = code
}

// heed acts on signals, and on the loss of the output's reader, until the job is over. The first
// Ctrl-C cancels the job and the second does not wait for its end. SIGTERM and a closed pipe cancel
// a job that is bound to this command; a hang-up leaves it running.
func (a *attached) heed(ctx context.Context, letGo func(), signals <-chan os.Signal) {
	cancelled := false // so its peer has said
	for {
		select {
		case <-ctx.Done():
			return
		case code := <-a.reader:
			a.leave(ctx, code)
			letGo()
			return
		case s := <-signals:
			if s != os.Interrupt {
				code := interruptCode
				if s == syscall.SIGTERM {
					code = terminateCode
				}
				a.leave(ctx, code)
				letGo()
				return
			}
			again := a.endedBy() != 0
			a.endBy(interruptCode)
			if again && cancelled {
				a.say("not waiting; job %s is being cancelled: see `peer job %s`\n", a.id, a.id)
				letGo()
				return
			}
			if again {
				a.sayDetached()
				letGo()
				return
			}
			a.say("cancelling job %s; Ctrl-C again does not wait for its end\n", a.id)
			switch _, err := a.client.Cancel(ctx, a.id); {
			case err == nil:
				cancelled = true
			case ctx.Err() != nil:
			case api.AsError(err).Code == api.Conflict: // its files are on their way
				fmt.Fprintf(a.Err, "job %s is over: see `peer job %s`%s\n", a.id, a.id, a.later())
				letGo()
				return
			default:
				fmt.Fprintf(a.Err, "peer: cannot cancel: %v\n", err)
			}
		}
	}
}

// leave ends this command before its job is over: it cancels a bound job, unless the terminal was
// lost.
func (a *attached) leave(ctx context.Context, code int) {
	a.endBy(code)
	if !a.bound || code == interruptCode {
		a.sayDetached()
		return
	}
	switch err := cancelSoon(context.WithoutCancel(ctx), a.client, a.id); { // the job's end cancels ctx
	case err == nil:
		a.say("cancelled job %s: see `peer job %s`\n", a.id, a.id)
	case api.AsError(err).Code == api.Conflict:
		a.say("job %s is over: see `peer job %s`%s\n", a.id, a.id, a.later())
	default:
		a.say("peer: job %s may keep running: cannot cancel it: %v; type `peer cancel %s`\n", a.id, err, a.id)
	}
}

// say writes a line about the job; on a terminal below the ^C and the progress that stand there.
func (a *attached) say(format string, args ...any) {
	if isTerminal(a.Err) {
		fmt.Fprintln(a.Err)
	}
	fmt.Fprintf(a.Err, format, args...)
}

func (a *attached) sayDetached() {
	a.say("detached; job %s keeps running: see `peer job %s`%s\n", a.id, a.id, a.later())
}

// cancelSoon cancels a job, and tries again for a few seconds. The error is a Conflict for one that
// is over.
func cancelSoon(ctx context.Context, cl *client.Client, id string) error {
	ctx, cancel := context.WithTimeout(ctx, cancelTime)
	defer cancel()
	var last error
	for {
		_, err := cl.Cancel(ctx, id)
		switch {
		case err == nil, api.AsError(err).Code == api.Conflict:
			return err
		case last == nil || ctx.Err() == nil: // what the deadline says is not why
			last = err
		}
		if pause.For(ctx, cancelRetry) != nil {
			return last
		}
	}
}

// written passes on the error of writing output. A pipe without a reader ends this command, and so
// does a terminal that is gone.
func (a *attached) written(err error) error {
	code := 0
	switch {
	case errors.Is(err, syscall.EPIPE):
		code = brokenPipeCode
	case errors.Is(err, syscall.EIO):
		code = interruptCode // as a hang-up
	default:
		return err
	}
	select {
	case a.reader <- code:
	default: // heard already
	}
	return err
}
