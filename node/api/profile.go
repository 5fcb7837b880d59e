package api

import (
	"net/http"
	"net/http/pprof" // also serves itself on http.DefaultServeMux, which nobody serves
)

// profile answers with what runtime/pprof knows, for `go tool pprof`.
func profile() Call {
	c := custom[string](func(_ Backend, w http.ResponseWriter, r *http.Request) {
		switch id := r.PathValue("id"); id {
		case "profile":
			pprof.Profile(w, r)
		case "trace":
			pprof.Trace(w, r)
		default:
			pprof.Handler(id).ServeHTTP(w, r)
		}
	})
	c.Media = "application/octet-stream"
	return c
}
