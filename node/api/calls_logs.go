package api

import (
	"net/http"
	"net/url"
	"strconv"
)

func logs() Call {
	return streaming(func(b Backend, r *http.Request, send func(LogChunk) error) error {
		q, err := logQuery(r.URL.Query())
		if err != nil {
			return err
		}
		return b.Logs(r.Context(), r.PathValue("id"), q, send)
	}, Backend.Logs)
}

func logQuery(v url.Values) (LogQuery, error) {
	q := LogQuery{Follow: v.Get("follow") == "1", Task: v.Get("task"), Stream: v.Get("stream"), Times: v.Get("times") == "1"}
	for name, into := range map[string]*int{"slot": &q.Slot, "tail": &q.Tail} {
		n := v.Get(name)
		if n == "" {
			continue
		}
		var err error
		if *into, err = strconv.Atoi(n); err != nil || *into < 1 {
			return q, Errorf(Usage, "%s %q: expected a whole number from 1", name, n)
		}
	}
	var err error
	q.Since, err = moment(v, "since")
	return q, err
}
