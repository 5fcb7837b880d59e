package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// MaxBody caps a request's body in bytes: the largest job, and room for JSON's overhead.
const MaxBody = 4 << 20

// NewHandler serves b to those whom the gate lets in; nil: to everybody. It holds no state of its
// own.
func NewHandler(b Backend, g *Gate) http.Handler {
	if g == nil {
		g = &Gate{}
	}
	x := &routes{mux: http.NewServeMux(), gate: g, b: b}
	for _, r := range Routes() {
		x.on(r.want, r.Pattern, r.serve(b))
	}
	x.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, Errorf(NotFound, "no such call: %s %s (is this `peer` of another version than the daemon? see `peer version`)", r.Method, r.URL.Path))
	})
	return x.mux
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

// ErrorBody is an error as an answer, and as the last line of a stream.
type ErrorBody struct {
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
	_ = json.NewEncoder(w).Encode(ErrorBody{e})
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
		_ = l.enc.Encode(ErrorBody{AsError(err)})
	}
}
