package door

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"mime"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/web"
)

// bodyTime bounds how long a body may take to come that is no stream.
const bodyTime = 30 * time.Second

// policy is what the page may load: its own files, and what it asks of its own peer.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// handler serves one address of the door.
type handler struct {
	door  *Door
	hosts func() []string // by which names it may be asked
	tls   bool
	page  http.Handler
	api   http.Handler
	cross *http.CrossOriginProtection
}

func (d *Door) handler(at net.Addr, certs *certs) http.Handler {
	names := func() []string { return hosts(at, certs) } // of a certificate that may be another one later
	return &handler{door: d, hosts: names, tls: certs != nil, page: web.Handler(), api: d.api, cross: http.NewCrossOriginProtection()}
}

// ServeHTTP lets in what is asked under the door's own name, from no other page, in a type that no
// form can send, with a token.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Content-Security-Policy", policy)
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	head.Set("Cache-Control", "no-store")
	if h.tls {
		head.Set("Strict-Transport-Security", "max-age=31536000")
	}
	switch {
	case !slices.Contains(h.hosts(), strings.ToLower(r.Host)):
		deny(w, http.StatusMisdirectedRequest, "this door is not called %q; ask for %s", r.Host, strings.Join(h.hosts(), " or "))
	case h.elsewhere(r):
		deny(w, http.StatusForbidden, "this was asked by a page from elsewhere")
	case r.URL.Path == "/login":
		h.login(w, r)
	case web.Has(r.URL.Path):
		h.page.ServeHTTP(w, r)
	default:
		h.ask(w, r)
	}
}

// elsewhere reports whether a page of another origin asks. A link on such a page may lead to the
// page here; questions to the API are refused whatever they ask, with a good token as well.
func (h *handler) elsewhere(r *http.Request) bool {
	if asks := r.Method == http.MethodGet || r.Method == http.MethodHead; asks && !web.Has(r.URL.Path) {
		changes := *r // what only asks is checked like what changes something
		changes.Method = http.MethodPost
		r = &changes
	}
	return h.cross.Check(r) != nil
}

// ask serves the API to who shows a token.
func (h *handler) ask(w http.ResponseWriter, r *http.Request) {
	secret, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	var k kept
	var in context.Context
	var leave func()
	if ok {
		k, in, leave, ok = h.door.tokens.enter(r.Context(), secret)
	}
	if !ok {
		w.Header().Set("WWW-Authenticate", "Bearer")
		deny(w, http.StatusUnauthorized, "no token was shown that is good here; on the peer's machine, `peer web` opens the page and `peer token create` makes a token")
		return
	}
	defer leave()
	if !proven(r.Context(), k.ID) {
		deny(w, http.StatusTooManyRequests, "the token %s has %d connections open, and no more can be; close some, or make another token with `peer token create`", cmp.Or(k.Name, k.ID), maxEach)
		return
	}
	// Whoever sends for long, as files, is not waited for when its token ends.
	cut := make(chan struct{})
	stay := context.AfterFunc(in, func() {
		defer close(cut)
		_ = http.NewResponseController(w).SetReadDeadline(time.Now())
	})
	defer func() {
		if !stay() { // after this handler's return HTTP/2 panics on the deadline, which ended the peer
			<-cut
		}
	}()
	if r.Method == http.MethodPost || r.Method == http.MethodPut {
		is, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if !slices.Contains([]string{"application/json", api.JobFileType, "application/octet-stream"}, is) {
			deny(w, http.StatusUnsupportedMediaType, "Content-Type %q: expected application/json, for a job file %s, for files and stdin application/octet-stream", is, api.JobFileType)
			return
		}
		if is != "application/octet-stream" {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime))
		}
	}
	if r.URL.Path == "/logout" && r.Method == http.MethodPost {
		answer(w, h.door.drop(k.ID))
		return
	}
	r.Header.Del("Authorization")
	h.api.ServeHTTP(w, r.WithContext(api.WithCaller(in, func() api.Caller {
		return api.Caller{UID: -1, Token: cmp.Or(k.Name, k.ID), Scope: k.Scope}
	})))
}

// maxLogin caps the body of a login in bytes.
const maxLogin = 1 << 10

// login makes a token of a code, once.
func (h *handler) login(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime))
	var q struct {
		Code string `json:"code"`
	}
	is, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if r.Method != http.MethodPost || is != "application/json" || json.NewDecoder(io.LimitReader(r.Body, maxLogin)).Decode(&q) != nil {
		deny(w, http.StatusBadRequest, "expected POST with {\"code\": …} as application/json")
		return
	}
	t, err := h.door.redeem(q.Code)
	if err != nil {
		deny(w, http.StatusUnauthorized, "%v", err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(t)
}

func answer(w http.ResponseWriter, err error) {
	if err != nil {
		deny(w, http.StatusInternalServerError, "%v", err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, "{}\n")
}

// deny says why not, and hangs up: who was refused may not keep a connection, nor have its body
// read.
func deny(w http.ResponseWriter, status int, format string, args ...any) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now())
	w.Header().Set("Connection", "close")
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": api.Errorf(api.Refused, format, args...)})
}
