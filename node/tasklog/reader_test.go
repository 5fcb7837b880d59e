package tasklog

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/coveyproject/covey/taskstate"
)

// Open reads one stream from an offset. A following reader blocks until more comes, and ends with
// io.EOF when the task is over; Close unblocks it.
func (s *Store) Open(id taskstate.TaskID, stream string, offset int64, follow bool) (io.ReadCloser, error) {
	req := Request{Task: id, Parts: []Part{{Stream: stream, Offset: offset}}, Follow: follow}
	if err := req.Validate(); err != nil {
		return nil, &Error{Code: CodeBad, Message: err.Error()}
	}
	c, err := s.begin(req)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &reader{c: c, ctx: ctx, cancel: cancel}, nil
}

// reader is a cursor over one stream as an io.ReadCloser.
type reader struct {
	c      *cursor
	ctx    context.Context
	cancel context.CancelFunc
	wait   time.Duration
}

func (r *reader) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	p := r.c.parts[0]
	for {
		n, end, err := r.c.read(p, b)
		switch {
		case r.ctx.Err() != nil:
			return 0, os.ErrClosed
		case n > 0 || err != nil:
			r.wait = 0
			return n, err
		case end:
			return 0, io.EOF
		}
		if r.wait, err = r.c.pause(r.ctx, r.wait); err != nil {
			return 0, os.ErrClosed
		}
	}
}

// Close unblocks Read and may be called while one is under way; the file goes with the reader's
// memory, or here if nobody reads.
func (r *reader) Close() error {
	r.cancel()
	return r.c.close()
}
