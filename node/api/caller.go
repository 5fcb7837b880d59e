package api

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coveyproject/covey/internal/atomicfile"
	"github.com/coveyproject/covey/trust/audit"
)

// Caller is who asks: somebody at this machine, or a process of a task that runs on it.
type Caller struct {
	PID, UID int // UID is -1 where the system does not tell

	Inside bool   // it is a process of a task, or could not be looked at; a process that left its task is not
	Task   string // which; "" if that cannot be told
	As     string // the peer that submitted the task, in whose name it asks; "" if that cannot be told
	AsName string // of that peer, for people
	Why    string // why As is ""
	Busy   bool   // this peer may not open another file now, which it takes to tell what asks

	Token string // over TCP: the name of the token that was shown
	Scope Scope  // of it
}

type callerKey struct{}

// WithCaller says who asks in what is served with the context. It is found out when first asked
// for.
func WithCaller(ctx context.Context, of func() Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, of)
}

// CallerOf is who asks. In a context of another origin it is this peer's owner.
func CallerOf(ctx context.Context) Caller {
	if of, ok := ctx.Value(callerKey{}).(func() Caller); ok {
		return of()
	}
	return Caller{UID: -1}
}

// where says where a caller inside runs.
func (c Caller) where() string {
	if c.Task == "" {
		return "a task"
	}
	return "task " + c.Task
}

// right is what a call asks of its caller. A call whose right is not said is administration.
//
// The owner is a caller that shows the token of the data folder, which tasks cannot read. All that
// the peer signs with its key is for the owner and for tasks that were submitted here. A caller
// that shows no token and is of no known task may have left its task: it may know and list.
type right int

const (
	administer right = iota // change who is in the cluster, what holds for all, or this peer: the owner
	know                    // what every member may know
	list                    // that, of jobs and tasks; and their commands and items: from inside a task, of jobs its submitter may read
	read                    // what a job runs and wrote: from inside a task, of jobs its submitter may read
	change                  // change the job that is named: from inside a task, if both were submitted here
	hand                    // hand in a job, or files: from inside a task, if that was submitted here
	fetch                   // have files brought: from inside a task, if that was submitted here
	own                     // administer, and nowhere but at this machine's socket
)

// Scope is what a token lets its bearer do: each what the one before does, and more.
type Scope string

// The scopes.
const (
	ReadScope   Scope = "read"   // ask
	SubmitScope Scope = "submit" // hand in jobs and files, and change jobs
	AdminScope  Scope = "admin"  // change who is in the cluster, what holds for all, and this peer
	NoScope     Scope = ""       // nothing; of a route: no token is enough
)

// Has tells whether a scope is enough for what wants another.
func (s Scope) Has(want Scope) bool {
	order := []Scope{ReadScope, SubmitScope, AdminScope}
	return want != NoScope && slices.Index(order, s) >= slices.Index(order, want)
}

// scope is the least that a token must have.
func (r right) scope() Scope {
	switch r {
	case know, list, read, fetch:
		return ReadScope
	case change, hand:
		return SubmitScope
	case administer:
		return AdminScope
	}
	return NoScope
}

// administers tells whether it changes more than jobs.
func (r right) administers() bool { return r == administer || r == own }

// Gate decides which calls are answered. The zero Gate asks for no token and knows no caller.
type Gate struct {
	Self  string // this peer
	Token string // what the owner shows; "": every caller outside of tasks is the owner
	// Reads tells whether a peer may read what others' jobs run and wrote; nil: it may.
	Reads func(peer string) bool
	// Note hears of every call that changes something or was refused, when it was answered;
	// optional.
	Note func(Noted)
	// Count hears of every call that was answered: its route, and the HTTP status; optional.
	Count func(route string, status int)
}

// Noted is a call for the record.
type Noted struct {
	Caller Caller
	Call   string // method and path
	Err    *Error // nil: it was answered
}

// Audited has calls written into a log.
func Audited(log *audit.Log) func(Noted) {
	return func(c Noted) {
		r := audit.Record{What: audit.API, Call: c.Call, Outcome: "done", By: c.Caller.As, Task: c.Caller.Task, PID: c.Caller.PID}
		if c.Caller.UID >= 0 {
			r.UID = &c.Caller.UID
		}
		if c.Caller.Token != "" {
			r.Detail = "over TCP, with the token " + c.Caller.Token
		}
		if c.Err != nil {
			r.Outcome, r.Detail = string(c.Err.Code), c.Err.Message
		}
		log.Write(r)
	}
}

// permits says why a caller does not get its answer.
func (g *Gate) permits(r *http.Request, want right, b Backend) error {
	c := CallerOf(r.Context())
	switch {
	case c.Busy:
		return Errorf(Failed, "this peer may not open another file now, so it cannot tell which process asks: try again; if that lasts, raise `ulimit -n` of its user and start it again")
	case c.Token != "" && c.Scope.Has(want.scope()):
		return nil
	case c.Token != "" && want == own:
		return Errorf(Refused, "this is answered on the peer's machine only, at its socket: use `peer` there")
	case c.Token != "":
		return Errorf(Refused, "the token %s has the scope %s, and this wants %s: on the peer's machine, `peer token create --scope %s` makes one that may", c.Token, c.Scope, want.scope(), want.scope())
	case g.owner(r):
		return nil
	case !c.Inside && c.UID > 0 && c.UID != os.Geteuid():
		return Errorf(Refused, "this peer belongs to another user")
	case !c.Inside && g.Token == "":
		return nil
	case c.Inside && want.administers():
		return Errorf(Refused, "administration is not taken from inside a task, and this runs in %s; type it in a shell of this machine, as the user that runs the peer", c.where())
	case want == know, want == list:
		return nil
	case !c.Inside:
		return Errorf(Refused, "only the peer's owner may do this: the token in the file %s of its data folder was not shown; use `peer` of this version, as the user that runs the peer; if that file was removed or changed, end process %d and start the peer again, which draws another", tokenName, os.Getpid())
	case c.As == "":
		return Errorf(Refused, "this runs in %s, and it cannot be told which peer submitted it: %s; what jobs run is not shown here, and nothing is changed", c.where(), c.Why)
	case want == read:
		return g.reads(r, c, b)
	case c.As != g.Self:
		return Errorf(Refused, "this runs in %s, which was submitted through %s: from inside it this peer takes no orders, as it would sign them with its own key; submit where the task was submitted", c.where(), c.AsName)
	case want == change:
		return g.owns(r, b)
	}
	return nil
}

// reads tells whether who submitted the task that asks may read the job it asks for.
func (g *Gate) reads(r *http.Request, c Caller, b Backend) error {
	if g.Reads == nil || g.Reads(c.As) {
		return nil
	}
	id, _, _ := strings.Cut(r.PathValue("id"), ".")
	a, err := b.Job(r.Context(), id)
	if err == nil && a.Job.Submitter != c.As {
		return Errorf(Refused, "this runs in %s, which was submitted through %s, and job %s was not: what jobs of others run and wrote is for those with the role admin or read", c.where(), c.AsName, id)
	}
	return err
}

type blankKey struct{}

// blanked leaves the items of tasks, and what jobs run, out of an answer if the caller may not read
// the job, or all of them where none is named.
func (g *Gate) blanked(r *http.Request, b Backend) *http.Request {
	c := CallerOf(r.Context())
	if c.Token != "" || g.owner(r) || !c.Inside && g.Token == "" || c.As != "" && g.reads(r, c, b) == nil {
		return r
	}
	return r.WithContext(context.WithValue(r.Context(), blankKey{}, true))
}

// itemsFor are rows as they are for who asks: with the items of their tasks, or without.
func itemsFor(ctx context.Context, rows []Task) []Task {
	if ctx.Value(blankKey{}) == nil {
		return rows
	}
	rows = slices.Clone(rows)
	for i := range rows {
		rows[i].Item, rows[i].ItemBase64 = "", nil
	}
	return rows
}

// commandsFor are rows as they are for the caller: with what the jobs run, or without.
func commandsFor(ctx context.Context, rows []Job) []Job {
	if ctx.Value(blankKey{}) == nil {
		return rows
	}
	rows = slices.Clone(rows)
	for i := range rows {
		rows[i].Command = ""
	}
	return rows
}

// owns tells whether a job that is to be changed was submitted here, as was the task that asks.
func (g *Gate) owns(r *http.Request, b Backend) error {
	id, _, _ := strings.Cut(r.PathValue("id"), ".")
	a, err := b.Job(r.Context(), id)
	if err != nil {
		return err
	}
	return MayChange(r.Context(), a.Job.Submitter)
}

// owner reports whether a call shows the token of the data folder.
func (g *Gate) owner(r *http.Request) bool {
	shown := strings.TrimPrefix(r.Header.Get("Authorization"), Bearer)
	return g.Token != "" && subtle.ConstantTimeCompare([]byte(shown), []byte(g.Token)) == 1
}

// asOwner has what serves a call see its caller as the owner, whatever process it is.
func asOwner(r *http.Request) *http.Request {
	ctx := r.Context()
	return r.WithContext(WithCaller(ctx, func() Caller {
		c := CallerOf(ctx)
		c.Inside, c.As, c.AsName = false, "", ""
		return c
	}))
}

// Bearer begins the Authorization header; a token follows.
const Bearer = "Bearer "

// tokenName is the file of the data folder with the token.
const tokenName = "api.token"

// TokenPath is where the peer with this data folder keeps what administration has to show.
func TokenPath(data string) string { return filepath.Join(data, tokenName) }

// DrawToken draws the token of a start, for who can read the data folder. A disk that is full takes
// no new one: then that of the start before goes on, if there is one.
func DrawToken(data string) (token string, err error) {
	path := TokenPath(data)
	token = rand.Text()
	if err = atomicfile.Write(path, []byte(token+"\n")); err == nil {
		return token, nil
	}
	if old, wrong := os.ReadFile(path); wrong == nil && len(old) > 1 {
		return strings.TrimSpace(string(old)), nil
	}
	return token, err
}

// MayChange tells whether who asks may change a job of this submitter: from inside a task only
// its own.
func MayChange(ctx context.Context, submitter string) error {
	if c := CallerOf(ctx); c.Inside && c.As != submitter {
		return Errorf(Refused, "this runs in %s, and the job was submitted elsewhere: from inside a task only jobs of its own submitter are changed; type it in a shell of this machine", c.where())
	}
	return nil
}

// routes are calls, each with what it asks of its caller.
type routes struct {
	mux  *http.ServeMux
	gate *Gate
	b    Backend
}

// on serves a call.
func (x *routes) on(want right, pattern string, f http.HandlerFunc) {
	x.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if x.gate.Count != nil {
			c := &counted{ResponseWriter: w, status: http.StatusOK}
			defer func() { x.gate.Count(pattern, c.status) }()
			w = c
		}
		if x.gate.owner(r) {
			r = asOwner(r)
		}
		if err := x.gate.permits(r, want, x.b); err != nil {
			x.note(r, AsError(err))
			fail(w, err)
			return
		}
		if want == list {
			r = x.gate.blanked(r, x.b)
		}
		if x.gate.Note == nil || r.Method == http.MethodGet || want == fetch || r.URL.Query().Get("dry_run") == "1" {
			f(w, r)
			return
		}
		kept := &outcome{ResponseWriter: w}
		f(kept, r)
		x.note(r, kept.err)
	})
}

func (x *routes) note(r *http.Request, err *Error) {
	if x.gate.Note != nil {
		x.gate.Note(Noted{Caller: CallerOf(r.Context()), Call: r.Method + " " + r.URL.Path, Err: err})
	}
}

// counted remembers the status of an answer.
type counted struct {
	http.ResponseWriter
	status int
}

// Unwrap is for http.ResponseController.
func (c *counted) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (c *counted) WriteHeader(status int) {
	c.status = status
	c.ResponseWriter.WriteHeader(status)
}

// outcome remembers how a call was answered.
type outcome struct {
	http.ResponseWriter
	err *Error
}

// Unwrap is for http.ResponseController.
func (o *outcome) Unwrap() http.ResponseWriter { return o.ResponseWriter }

// failed is told by fail.
func (o *outcome) failed(err *Error) { o.err = err }

// ReadToken is the token of a running peer, "" if it cannot be read: from inside a task, or as
// another user.
func ReadToken(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
