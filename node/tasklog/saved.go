package tasklog

import (
	"context"
	"errors"
	"io"
)

// Saved is a stream of a task that has ended, as it is kept. The zero value is empty.
type Saved struct {
	io.ReaderAt
	Size int64
}

// CopySaved gives f the output asked for of a task that has ended, as Store.Copy does where the
// task ran. When its lines were written is not kept: at is when all of it was there, Unix
// milliseconds. What fails is the reader's error, or f's.
func CopySaved(ctx context.Context, req Request, at int64, stream func(name string) Saved, f func(Chunk) error) error {
	if err := req.Validate(); err != nil {
		return &Error{Code: CodeBad, Message: err.Error()}
	}
	buf := make([]byte, MaxChunk)
	for _, p := range req.Parts {
		s := stream(p.Stream)
		off, err := p.Offset, error(nil)
		if off == 0 && req.Tail > 0 {
			off, err = tailFrom(s, req.Tail, 0, s.Size)
		}
		if p.Offset == 0 && req.Since > at {
			off = s.Size
		}
		for end := false; !end; {
			if err == nil {
				err = ctx.Err()
			}
			n := 0
			if err == nil && off < s.Size {
				n, err = s.ReadAt(buf[:min(int64(len(buf)), s.Size-off)], off)
			}
			if err != nil && (n == 0 || !errors.Is(err, io.EOF)) {
				return err
			}
			end = off+int64(n) >= s.Size
			c := Chunk{Stream: p.Stream, Offset: off, Data: buf[:n], EOF: end}
			if req.Times && n > 0 {
				c.At = at
			}
			if err = f(c); err != nil {
				return err
			}
			off += int64(n)
		}
	}
	return nil
}
