package api

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"
)

func get[T any](f func(Backend, context.Context) (T, error)) Call {
	return Call{Answers: reflect.TypeFor[T](), Of: []any{f}, serve: func(b Backend) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			v, err := f(b, r.Context())
			answer(w, v, err)
		}
	}}
}

func getID[T any](f func(Backend, context.Context, string) (T, error)) Call {
	return Call{Answers: reflect.TypeFor[T](), Of: []any{f}, serve: func(b Backend) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			v, err := f(b, r.Context(), r.PathValue("id"))
			answer(w, v, err)
		}
	}}
}

func post[Q, T any](f func(Backend, context.Context, Q) (T, error)) Call {
	c := postID(func(b Backend, ctx context.Context, _ string, q Q) (T, error) { return f(b, ctx, q) })
	c.Of = []any{f}
	return c
}

// postID serves what has an id in its path and a body.
func postID[Q, T any](f func(Backend, context.Context, string, Q) (T, error)) Call {
	return Call{Takes: reflect.TypeFor[Q](), Answers: reflect.TypeFor[T](), Of: []any{f}, serve: func(b Backend) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			q, err := body[Q](w, r)
			if err != nil {
				fail(w, err)
				return
			}
			v, err := f(b, r.Context(), r.PathValue("id"), q)
			answer(w, v, err)
		}
	}}
}

func do(f func(Backend, context.Context) error) Call {
	c := doID(func(b Backend, ctx context.Context, _ string) error { return f(b, ctx) })
	c.Of = []any{f}
	return c
}

func doID(f func(Backend, context.Context, string) error) Call {
	return custom[struct{}](func(b Backend, w http.ResponseWriter, r *http.Request) {
		answer(w, struct{}{}, f(b, r.Context(), r.PathValue("id")))
	}, f)
}

// custom answers with a T in its own way.
func custom[T any](f func(Backend, http.ResponseWriter, *http.Request), of ...any) Call {
	return Call{Answers: reflect.TypeFor[T](), Of: of, serve: func(b Backend) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { f(b, w, r) }
	}}
}

// streaming answers with lines.
func streaming[T any](f func(Backend, *http.Request, func(T) error) error, of ...any) Call {
	c := custom[T](func(b Backend, w http.ResponseWriter, r *http.Request) {
		l := newLines[T](w)
		err := f(b, r, l.send)
		if why, ok := errors.AsType[*Error](context.Cause(r.Context())); ok && err != nil {
			err = why // it was ended, by whoever let it in
		}
		l.end(err)
	}, of...)
	c.Stream = true
	return c
}

func metrics() Call {
	c := custom[string](func(b Backend, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", MetricsFormat)
		if err := b.Metrics(r.Context(), w); err != nil {
			fail(w, err)
		}
	}, Backend.Metrics)
	c.Media = "text/plain"
	return c
}

func watch() Call {
	return streaming(func(b Backend, r *http.Request, send func(Event) error) error {
		return b.Watch(r.Context(), r.URL.Query().Get("since"), send)
	}, Backend.Watch)
}

func follow() Call {
	return streaming(func(b Backend, r *http.Request, send func(Progress) error) error {
		return b.Follow(r.Context(), r.PathValue("id"), r.URL.Query().Get("tasks") == "1", func(p Progress) error {
			p.Tasks = itemsFor(r.Context(), p.Tasks)
			return send(p)
		})
	}, Backend.Follow)
}

func draining() Call {
	return streaming(func(b Backend, r *http.Request, send func(Draining) error) error {
		return b.Draining(r.Context(), r.PathValue("id"), send)
	}, Backend.Draining)
}

func remove() Call {
	return custom[struct{}](func(b Backend, w http.ResponseWriter, r *http.Request) {
		answer(w, struct{}{}, b.Remove(r.Context(), r.PathValue("id"), Removal{Revoke: r.URL.Query().Get("revoke") == "true"}))
	}, Backend.Remove)
}

// cancel answers with the job that was cancelled, as whatever else is said of one job.
func cancel() Call {
	return custom[JobAnswer](func(b Backend, w http.ResponseWriter, r *http.Request) {
		j, err := b.Cancel(r.Context(), r.PathValue("id"))
		answer(w, JobAnswer{Job: j, AsOf: time.Now().UTC()}, err)
	}, Backend.Cancel)
}

func tasks() Call {
	return custom[Tasks](func(b Backend, w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		list := b.Tasks
		if query.Get("all") == "1" {
			list = b.AllTasks
		} else if q, some, err := taskQuery(query); err != nil {
			fail(w, err)
			return
		} else if some {
			list = func(ctx context.Context, id string) (Tasks, error) { return b.SomeTasks(ctx, id, q) }
		}
		v, err := list(r.Context(), r.PathValue("id"))
		v.Tasks = itemsFor(r.Context(), v.Tasks)
		answer(w, v, err)
	}, Backend.Tasks, Backend.AllTasks, Backend.SomeTasks)
}

func jobs() Call {
	return custom[Jobs](func(b Backend, w http.ResponseWriter, r *http.Request) {
		list := b.Jobs
		if q, some, err := jobQuery(r.URL.Query()); err != nil {
			fail(w, err)
			return
		} else if some {
			list = func(ctx context.Context) (Jobs, error) { return b.SomeJobs(ctx, q) }
		}
		v, err := list(r.Context())
		v.Jobs = commandsFor(r.Context(), v.Jobs)
		answer(w, v, err)
	}, Backend.Jobs, Backend.SomeJobs)
}

// jobQuery reads a JobQuery; some tells whether there is one.
func jobQuery(v url.Values) (q JobQuery, some bool, err error) {
	for _, s := range v["state"] {
		for word := range strings.SplitSeq(s, ",") {
			switch {
			case word == "":
			case !slices.Contains(JobStates, word):
				return q, true, Errorf(Usage, "state %q: expected one or more of %s, with commas", word, strings.Join(JobStates, ", "))
			default:
				q.States = append(q.States, word)
			}
		}
	}
	if q.Since, err = moment(v, "since"); err != nil {
		return q, true, err
	}
	if v.Has("limit") {
		q.Limit, err = number(v, "limit", 0, math.MaxInt32)
	}
	return q, v.Has("state") || v.Has("since") || v.Has("limit"), err
}

// moment reads a time out of a query; zero if it is not there.
func moment(v url.Values, name string) (at time.Time, err error) {
	text := v.Get(name)
	if text == "" {
		return at, nil
	}
	if at, err = time.Parse(time.RFC3339, text); err != nil {
		return at, Errorf(Usage, "%s %q: expected a time like 2006-01-02T15:04:05Z", name, text)
	}
	return at, nil
}

func pin() Call {
	return custom[JobAnswer](func(b Backend, w http.ResponseWriter, r *http.Request) {
		v, err := b.Pin(r.Context(), r.PathValue("id"), r.URL.Query().Get("not") == "1")
		answer(w, v, err)
	}, Backend.Pin)
}

func rebalance() Call {
	return custom[Rebalanced](func(b Backend, w http.ResponseWriter, r *http.Request) {
		v, err := b.Rebalance(r.Context(), r.PathValue("id"), r.URL.Query().Get("dry_run") == "1")
		answer(w, v, err)
	}, Backend.Rebalance)
}

// stdin takes a body without end. One that breaks off is no end: the task is told.
func stdin() Call {
	c := custom[struct{}](func(b Backend, w http.ResponseWriter, r *http.Request) {
		answer(w, struct{}{}, b.Stdin(r.Context(), r.PathValue("id"), r.Body))
	}, Backend.Stdin)
	c.Body = "application/octet-stream"
	return c
}

func block() Call {
	return post(func(b Backend, ctx context.Context, r Block) (struct{}, error) { return struct{}{}, b.Block(ctx, r) }).leadsTo(Backend.Block)
}

// leadsTo names the method behind a call that has one of its own shape.
func (c Call) leadsTo(f any) Call {
	c.Of = []any{f}
	return c
}

func putFiles() Call {
	c := custom[Put](func(b Backend, w http.ResponseWriter, r *http.Request) {
		v, err := b.PutFiles(r.Context(), NewPutReader(r.Body))
		answer(w, v, err)
	}, Backend.PutFiles)
	c.Body = "application/octet-stream"
	return c
}

func unput() Call {
	return custom[Put](func(b Backend, w http.ResponseWriter, r *http.Request) {
		v, err := b.Unput(r.Context(), r.URL.Query().Get("ref"))
		answer(w, v, err)
	}, Backend.Unput)
}

func getFiles() Call {
	c := custom[string](func(b Backend, w http.ResponseWriter, r *http.Request) {
		q, err := body[GetFiles](w, r)
		if err != nil {
			fail(w, err)
			return
		}
		out := newFileWriter(w)
		out.end(b.GetFiles(r.Context(), q, out))
	}, Backend.GetFiles)
	c.Takes, c.Media = reflect.TypeFor[GetFiles](), "application/octet-stream"
	return c
}
