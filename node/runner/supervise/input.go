package supervise

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// The stdin of a task comes in pieces: files in a folder of its home, put there by the peer, each
// named by the offset of its first byte. An empty one is the end. They are fed to the task in order
// and removed, but for the last: so a peer that was killed knows from the names how far it had
// come, and the task, whose pipe is here, never notices. No piece is not the end: the task waits.

// InputFolder is the folder of a task's home that its stdin is put into.
const InputFolder = "stdin"

// ReasonInput is why a task is stopped whose stdin cannot be read from the disk: an end of file in
// its place would be a wrong result.
const ReasonInput = "stdin"

// InputPiece is the name of the piece that begins at an offset. Names sort as offsets do.
func InputPiece(at int64) string { return fmt.Sprintf("%019d", at) }

// How long to wait before looking for the next piece: the first is doubled up to the second.
const (
	inputSoon = time.Millisecond
	inputLate = 20 * time.Millisecond
)

// input is the pipe to a task that is fed. A nil one is none.
type input struct {
	dir  string
	w    *os.File
	over chan struct{} // closed when the task has ended
}

// input makes the pipe of a task that wants one, and the file that becomes its stdin.
func (e *Engine) input(s Spec) (*input, *os.File, error) {
	if !s.Stdin {
		return nil, e.null, nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	return &input{dir: filepath.Join(s.Home, InputFolder), w: w, over: make(chan struct{})}, r, nil
}

// passedOn closes this process's end of what the task reads.
func (in *input) passedOn(stdin *os.File) {
	if in != nil {
		_ = stdin.Close()
	}
}

// close ends the feeding. It is called once.
func (in *input) close() {
	if in != nil {
		close(in.over)
		_ = in.w.Close()
	}
}

// feed feeds a task until it has ended, or its stdin has. One that closes its stdin is fed no more.
func (e *Engine) feed(x *proc) {
	in := x.in
	if in == nil {
		return
	}
	e.all.Go(func() {
		if err := in.run(); err != nil {
			e.warn("stdin of task " + x.spec.Task + ": " + err.Error())
			e.Stop(x.spec.Task, ReasonInput)
			return // with its pipe open: it must not take this for the end
		}
		_ = in.w.Close()
	})
}

// run feeds piece after piece. It ends without an error at the end of the stdin, and when nobody
// reads any more.
func (in *input) run() error {
	buf := make([]byte, 64<<10)
	last := ""
	for at := int64(0); ; {
		name := filepath.Join(in.dir, InputPiece(at))
		f, err := in.await(name)
		if f == nil {
			return err
		}
		n, rerr, werr := copyPiece(in.w, f, buf)
		_ = f.Close()
		switch {
		case werr != nil: // it has ended, or closed its stdin
			return nil //nolint:nilerr // which is its right
		case rerr != nil:
			return rerr
		case n == 0:
			return nil
		}
		if last != "" {
			_ = os.Remove(last)
		}
		last, at = name, at+n
	}
}

// await opens a piece when it is there; nil without an error means that the task has ended.
func (in *input) await(name string) (*os.File, error) {
	for wait := inputSoon; ; wait = min(2*wait, inputLate) {
		f, err := os.Open(name)
		if err == nil {
			return f, nil
		}
		t := time.NewTimer(wait)
		select {
		case <-in.over:
			t.Stop()
			return nil, nil
		case <-t.C:
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
}

// copyPiece copies a piece into the pipe, and tells whose fault it is if it cannot.
func copyPiece(w io.Writer, r io.Reader, buf []byte) (n int64, rerr, werr error) {
	for {
		k, err := r.Read(buf)
		if k > 0 {
			if _, werr := w.Write(buf[:k]); werr != nil {
				return n, nil, werr
			}
			n += int64(k)
		}
		if errors.Is(err, io.EOF) {
			return n, nil, nil
		}
		if err != nil {
			return n, err, nil
		}
	}
}
