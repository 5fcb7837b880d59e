package tasklog

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/internal/limit"
	"github.com/coveyproject/covey/p2p/memnet"
	"github.com/coveyproject/covey/p2p/wire"
)

// against asks a peer that answers with these frames, and then with silence, for both streams.
func against(t *testing.T, req Request, answers ...answer) (string, error) {
	t.Helper()
	var g got
	var err error
	synctest.Test(t, func(t *testing.T) {
		network := memnet.New()
		defer network.Close()
		gone := make(chan struct{})
		network.Host("owner").Handle(LogsProtocol, func(_ string, c net.Conn) {
			defer c.Close()
			var asked Request
			if err := wire.NewReader(c, 0).Read(&asked); err != nil {
				t.Error(err)
			}
			w := wire.NewWriter(c, 0)
			for _, a := range answers {
				_ = w.Send(a)
			}
			_, _ = c.Read(make([]byte, 1)) // until the reader has gone
			close(gone)
		})
		began := time.Now()
		err = Fetch(context.Background(), network.Host("reader"), "owner", req, g.chunk)
		if time.Since(began) > limit.LifeTimeout {
			t.Errorf("it held out for %s", time.Since(began))
		}
		<-gone
	})
	return g.of(Stdout), err
}

func piece(stream string, at int64, data string, eof bool) answer {
	return answer{Chunk: &Chunk{Stream: stream, Offset: at, Data: []byte(data), EOF: eof}}
}

func TestOnlyWhatWasAskedForIsTakenForOutput(t *testing.T) {
	part := func(at int64) Request { return Request{Task: task, Parts: []Part{{Stream: Stdout, Offset: at}}} }
	tail := part(0)
	tail.Tail = 5
	for what, x := range map[string]struct {
		req     Request
		answers []answer
		out     string
		says    string // "": no error
	}{
		"as asked":                    {part(0), []answer{piece(Stdout, 0, "ab", false), {}, piece(Stdout, 2, "c", true)}, "abc", ""},
		"from an offset":              {part(7), []answer{piece(Stdout, 7, "ab", true)}, "ab", ""},
		"the tail, from anywhere":     {tail, []answer{piece(Stdout, 99, "ab", false), piece(Stdout, 101, "", true)}, "ab", ""},
		"nothing at all":              {part(0), []answer{piece(Stdout, 0, "", true)}, "", ""},
		"the other stream":            {part(0), []answer{piece(Stderr, 0, "x", false)}, "", "not asked for"},
		"a stream there is not":       {part(0), []answer{piece("stdin", 0, "x", false)}, "", "not asked for"},
		"more after the end":          {AllOutput(task, false), []answer{piece(Stdout, 0, "a", true), piece(Stdout, 1, "b", true)}, "a", "not asked for"},
		"a gap":                       {part(0), []answer{piece(Stdout, 0, "a", false), piece(Stdout, 2, "b", true)}, "a", "not asked for"},
		"the same again":              {part(0), []answer{piece(Stdout, 0, "a", false), piece(Stdout, 0, "a", true)}, "a", "not asked for"},
		"before the offset":           {part(7), []answer{piece(Stdout, 0, "a", true)}, "", "not asked for"},
		"a gap in the tail":           {tail, []answer{piece(Stdout, 5, "a", false), piece(Stdout, 5, "a", true)}, "a", "not asked for"},
		"a tail from before the file": {tail, []answer{piece(Stdout, -5, "a", true)}, "", "not asked for"},
		"too much at once":            {part(0), []answer{piece(Stdout, 0, strings.Repeat("x", MaxChunk+1), true)}, "", "not asked for"},
		"an error":                    {part(0), []answer{piece(Stdout, 0, "a", false), {Error: &Error{Code: CodeFailed, Message: "the disk broke"}}}, "a", "the disk broke"},
	} {
		out, err := against(t, x.req, x.answers...)
		if out != x.out || (err == nil) != (x.says == "") || err != nil && !strings.Contains(err.Error(), x.says) {
			t.Errorf("%s: %q, %v; want %q, %q", what, out, err, x.out, x.says)
		}
	}
}

func TestAnOwnerThatFallsSilentIsGivenUp(t *testing.T) {
	_, err := against(t, AllOutput(task, true), piece(Stdout, 0, "a", false))
	var e net.Error
	if !errors.As(err, &e) || !e.Timeout() {
		t.Errorf("%v", err)
	}
}
