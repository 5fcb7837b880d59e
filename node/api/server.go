package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// MaxBody caps a request's body in bytes: the largest job, and room for JSON's overhead.
const MaxBody = 4 << 20

// NewHandler serves b to those whom the gate lets in; nil: to everybody. It holds no state of its
// own.
func NewHandler(b Backend, g *Gate) http.Handler {
	if g == nil {
		g = &Gate{}
	}
	s := &server{b: b}
	x := &routes{mux: http.NewServeMux(), gate: g, b: b}
	x.on(know, "GET /v1/status", get(b.Status))
	x.on(know, "GET /v1/stats", get(b.Stats))
	x.on(know, "GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", MetricsFormat)
		if err := b.Metrics(r.Context(), w); err != nil {
			fail(w, err)
		}
	})
	x.on(know, "GET /v1/peers", get(b.Peers))
	peerRoutes(x, b)
	settingsRoutes(x, b)
	trustRoutes(x, b)
	fileRoutes(x, b)
	x.on(know, "GET /v1/jobs", get(b.Jobs))
	x.on(administer, "GET /v1/tickets", get(b.Invites))
	x.on(read, "GET /v1/jobs/{id}", getID(b.Job))
	x.on(read, "GET /v1/jobs/{id}/file", getID(b.JobFile))
	x.on(read, "GET /v1/explain/{id}", getID(b.Explain))
	x.on(change, "POST /v1/jobs/{id}/cancel", getID(cancelled(b)))
	changeRoutes(x, b)
	x.on(administer, "POST /v1/tickets", post(b.Invite))
	x.on(administer, "DELETE /v1/tickets/{id}", doID(b.Revoke))
	x.on(administer, "DELETE /v1/peers/{id}", func(w http.ResponseWriter, r *http.Request) {
		answer(w, struct{}{}, b.Remove(r.Context(), r.PathValue("id"), Removal{Revoke: r.URL.Query().Get("revoke") == "true"}))
	})
	x.on(administer, "GET /v1/peers/{id}/ordered", getID(b.OrderedBy))
	x.on(administer, "POST /v1/thaw", get(b.Thaw))
	x.on(administer, "POST /v1/leave", doID(func(ctx context.Context, _ string) error { return b.Leave(ctx) }))
	x.on(administer, "POST /v1/down", doID(func(ctx context.Context, _ string) error { return b.Down(ctx) }))
	x.on(administer, "GET /v1/recover", get(b.PlanRecover))
	x.on(administer, "POST /v1/recover", post(b.Recover))
	x.on(administer, "POST /v1/testnet/block", post(func(ctx context.Context, r Block) (struct{}, error) {
		return struct{}{}, b.Block(ctx, r)
	}))
	x.on(know, "GET /v1/jobs/{id}/follow", s.follow)
	x.on(read, "GET /v1/jobs/{id}/logs", s.logs)
	x.on(read, "GET /v1/jobs/{id}/files", s.jobFiles)
	x.on(change, "POST /v1/jobs/{id}/stdin", s.stdin)
	x.on(know, "GET /v1/watch", s.watch)
	nextRoutes(x, b)
	x.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, Errorf(NotFound, "no such call: %s %s (is this `peer` of another version than the daemon? see `peer version`)", r.Method, r.URL.Path))
	})
	return x.mux
}

type server struct{ b Backend }

func get[T any](f func(context.Context) (T, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := f(r.Context())
		answer(w, v, err)
	}
}

func getID[T any](f func(context.Context, string) (T, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := f(r.Context(), r.PathValue("id"))
		answer(w, v, err)
	}
}

// cancelled answers with the job that was cancelled, as whatever else is said of one job.
func cancelled(b Backend) func(context.Context, string) (JobAnswer, error) {
	return func(ctx context.Context, id string) (JobAnswer, error) {
		j, err := b.Cancel(ctx, id)
		return JobAnswer{Job: j, AsOf: time.Now().UTC()}, err
	}
}

func doID(f func(context.Context, string) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		answer(w, struct{}{}, f(r.Context(), r.PathValue("id")))
	}
}

func post[Q, T any](f func(context.Context, Q) (T, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q, err := body[Q](w, r)
		if err != nil {
			fail(w, err)
			return
		}
		v, err := f(r.Context(), q)
		answer(w, v, err)
	}
}

// body reads the one JSON value that a request has.
func body[Q any](w http.ResponseWriter, r *http.Request) (q Q, err error) {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, MaxBody))
	d.DisallowUnknownFields()
	if err := d.Decode(&q); err != nil {
		if _, big := errors.AsType[*http.MaxBytesError](err); big {
			err = fmt.Errorf("it is larger than %d bytes", MaxBody)
		}
		return q, Errorf(Usage, "cannot read the request: %v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return q, Errorf(Usage, "cannot read the request: something follows the JSON value")
	}
	return q, nil
}

// A selfWriter writes its JSON piece by piece: it may be long.
type selfWriter interface{ writeTo(w io.Writer) error }

func answer(w http.ResponseWriter, v any, err error) {
	if err != nil {
		fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if v, ok := v.(selfWriter); ok {
		_ = v.writeTo(w)
		return
	}
	_ = json.NewEncoder(w).Encode(v) // the client has gone: nobody to tell
}

type errorBody struct {
	Error *Error `json:"error"`
}

func fail(w http.ResponseWriter, err error) {
	e := AsError(err)
	if o, ok := w.(*outcome); ok {
		o.failed(e)
	}
	status := http.StatusInternalServerError
	if c, ok := codes[e.Code]; ok {
		status = c.http
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(errorBody{e})
}

// lines sends JSON lines, each flushed. An error before the first line is a plain error answer;
// later it is a last line of its own.
type lines[T any] struct {
	w       http.ResponseWriter
	enc     *json.Encoder
	started bool
}

func newLines[T any](w http.ResponseWriter) *lines[T] {
	return &lines[T]{w: w, enc: json.NewEncoder(w)}
}

func (l *lines[T]) send(v T) error {
	l.start()
	if err := l.enc.Encode(v); err != nil {
		return err
	}
	return http.NewResponseController(l.w).Flush()
}

func (l *lines[T]) start() {
	if !l.started {
		l.started = true
		l.w.Header().Set("Content-Type", "application/jsonl")
	}
}

func (l *lines[T]) end(err error) {
	switch {
	case err == nil:
		l.start()
	case !l.started:
		fail(l.w, err)
	default:
		_ = l.enc.Encode(errorBody{AsError(err)})
	}
}

func (s *server) follow(w http.ResponseWriter, r *http.Request) {
	l := newLines[Progress](w)
	l.end(s.b.Follow(r.Context(), r.PathValue("id"), r.URL.Query().Get("tasks") == "1", l.send))
}

func (s *server) logs(w http.ResponseWriter, r *http.Request) {
	l := newLines[LogChunk](w)
	v := r.URL.Query()
	q := LogQuery{Follow: v.Get("follow") == "1", Task: v.Get("task"), Stream: v.Get("stream"), Times: v.Get("times") == "1"}
	for name, into := range map[string]*int{"slot": &q.Slot, "tail": &q.Tail} {
		n := v.Get(name)
		if n == "" {
			continue
		}
		var err error
		if *into, err = strconv.Atoi(n); err != nil || *into < 1 {
			fail(w, Errorf(Usage, "%s %q: expected a whole number from 1", name, n))
			return
		}
	}
	if at := v.Get("since"); at != "" {
		var err error
		if q.Since, err = time.Parse(time.RFC3339, at); err != nil {
			fail(w, Errorf(Usage, "since %q: expected a time like 2006-01-02T15:04:05Z", at))
			return
		}
	}
	l.end(s.b.Logs(r.Context(), r.PathValue("id"), q, l.send))
}

// stdin takes a body without end. One that breaks off is no end: the task is told.
func (s *server) stdin(w http.ResponseWriter, r *http.Request) {
	answer(w, struct{}{}, s.b.Stdin(r.Context(), r.PathValue("id"), r.Body))
}

func (s *server) watch(w http.ResponseWriter, r *http.Request) {
	l := newLines[Event](w)
	l.end(s.b.Watch(r.Context(), r.URL.Query().Get("since"), l.send))
}
