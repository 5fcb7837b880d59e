package api

import (
	_ "embed"
	"net/http"
	"net/http/pprof" // also serves itself on http.DefaultServeMux, which nobody serves
	"reflect"
	"slices"
	"strings"
)

// Route is one call of the API: how it is served, and what its document says of it.
type Route struct {
	Pattern string // METHOD /path, as http.ServeMux takes it
	About   string // one line for people
	Query   []Param
	Call

	want right
}

// Param is a parameter in a route's query.
type Param struct{ Name, About string }

// Call serves a route, and says which types go in and out.
type Call struct {
	Takes, Answers reflect.Type // nil: nothing, or bytes of the Media
	Stream         bool         // Answers is one JSON line of many
	Media          string       // of the answer, if that is no JSON
	Body           string       // media type of what is taken, if that is no JSON
	Of             []any        // the methods of Backend that it leads to

	serve func(Backend) http.HandlerFunc
}

// Scope is what a caller needs that shows a token of its own.
func (r Route) Scope() Scope { return r.want.scope() }

// Routes is the one table of what a peer answers: server, document and tests are made of it.
func Routes() []Route {
	return slices.Concat(peerRoutes(), jobRoutes(), machineRoutes(), nextRoutes())
}

// peerRoutes are about this peer, the others, and the cluster they are.
func peerRoutes() []Route {
	return []Route{
		route(know, "GET /v1/status", "This peer: who it is, how it stands, what is wrong with it", get(Backend.Status)),
		route(know, "GET /v1/stats", "What this peer costs and holds", get(Backend.Stats)),
		route(know, "GET /metrics", "Numbers for Prometheus", metrics()),
		route(know, "GET /v1/watch", "Events as they happen", watch(), "since: the token of the last event that was seen; none: how things stand comes first"),
		route(know, "GET /v1/story", "What happened that is not about single tasks", story(), "since: only after this time", "limit: the newest so many, 200 if not given"),

		route(know, "GET /v1/peers", "All peers that this one knows", get(Backend.Peers)),
		route(know, "GET /v1/links", "Which peers are connected to which", get(Backend.Links)),
		route(know, "GET /v1/peers/{id}", "One peer", getID(Backend.Peer)),
		route(know, "GET /v1/peers/{id}/load", "How busy a peer's machine was for an hour", getID(Backend.PeerLoad)),
		route(know, "GET /v1/peers/{id}/doctor", "Whether a peer is well: what was checked, and what to type", getID(Backend.Examine)),
		route(administer, "DELETE /v1/peers/{id}", "End a peer's membership", remove(), "revoke: true: its key counts for nothing any more, and what it ordered ends"),
		route(administer, "GET /v1/peers/{id}/ordered", "What a peer's key ordered and is not over", getID(Backend.OrderedBy)),
		route(administer, "POST /v1/peers/{id}/availability", "Whether a peer takes tasks", postID(Backend.SetAvailability)),
		route(administer, "POST /v1/peers/{id}/labels", "Lay labels over those a peer says of itself", postID(Backend.SetLabels)),
		route(administer, "POST /v1/peers/{id}/roles", "Say what a peer may do", postID(Backend.SetRoles)),
		route(know, "GET /v1/peers/{id}/drain", "What is left on a drained peer, until nothing is", draining()),

		route(know, "GET /v1/settings", "What holds for the whole cluster", get(Backend.Settings)),
		route(administer, "POST /v1/settings", "Change what holds for the whole cluster", post(Backend.Set)),
		route(administer, "GET /v1/trust", "What this machine lets run", get(Backend.Trust)),
		route(administer, "POST /v1/trust/test", "What would become of a task under this machine's policy", post(Backend.TryTrust)),
	}
}

// jobRoutes are about jobs and what they did.
func jobRoutes() []Route {
	return []Route{
		route(list, "GET /v1/jobs", "All jobs, newest first", jobs(), "state: only in these states, with commas: held, pending, running, complete, failed, cancelled",
			"since: only those that go on or ended after this time", "limit: at most so many"),
		route(hand, "POST /v1/jobs", "Submit a job, or an update of a service", submit(), "dry_run: 1: only tell where its tasks would go; the answer is a Preview", "name: of a job file that names no job"),
		route(read, "GET /v1/jobs/{id}", "One job", getID(Backend.Job)),
		route(read, "GET /v1/jobs/{id}/file", "A job file that would do the same", getID(Backend.JobFile)),
		route(list, "GET /v1/jobs/{id}/tasks", "The tasks of a job", tasks(), "all: 1: with slots that are not wanted any more, and earlier attempts",
			"state: only in these states, with commas", "peer: only on this peer", "sort: slot, took, started or ended; -took and its like: the largest first",
			"limit: at most so many, 1000 if any of these is given", "after: next of the answer before"),
		route(know, "GET /v1/jobs/{id}/grid", "Where each slot of a job is, in few cells", sized("cells", usualCells, maxCells, Backend.Grid), "cells: at most so many, 4000 if not given"),
		route(know, "GET /v1/jobs/{id}/timeline", "Where and when the tasks of a job ran", sized("px", usualPx, maxPx, Backend.Timeline), "px: how wide it will be shown, 1200 if not given"),
		route(read, "GET /v1/jobs/{id}/failures", "The tasks of a job that failed, in groups", getID(Backend.Failures)),
		route(list, "GET /v1/jobs/{id}/follow", "How far a job is, until it ends", follow(), "tasks: 1: with the tasks that changed"),
		route(read, "GET /v1/jobs/{id}/logs", "What the tasks of a job print", logs(), "follow: 1: until they are over", "slot: only of this slot", "task: only of this task",
			"stream: stdout or stderr", "tail: only so many last lines of each stream", "since: only what was printed after this time", "times: 1: with the time of each piece"),
		route(read, "GET /v1/jobs/{id}/files", "What is kept of what the tasks left", jobFiles(), "slot: only of this slot", "partial: 1: also of tasks that failed"),
		route(read, "GET /v1/explain/{id}", "The story of a job or a task", getID(Backend.Explain)),
		route(change, "POST /v1/jobs/{id}/cancel", "Stop a job, or one task of it", cancel()),
		route(change, "POST /v1/jobs/{id}/stdin", "What the task of a job reads", stdin()),
		route(change, "POST /v1/jobs/{id}/renew", "Sign a job anew, so that it may go on starting tasks", getID(Backend.Renew)),
		route(change, "POST /v1/jobs/{id}/scale", "Give a service another count", postID(Backend.Scale)),
		route(change, "POST /v1/jobs/{id}/rollout", "Pause, continue or turn back an update", postID(Backend.Rollout)),
		route(change, "POST /v1/jobs/{id}/retry", "Give the slots that failed another attempt", getID(Backend.Retry)),
		route(change, "POST /v1/jobs/{id}/pin", "Keep a job when it is over", pin(), "not: 1: keep it no longer"),
		route(change, "POST /v1/jobs/{id}/trigger", "Start a run of a schedule now", getID(Backend.Trigger)),
		route(change, "POST /v1/jobs/{id}/rebalance", "Move tasks of a service to where there are fewer", rebalance(), "dry_run: 1: only tell"),
	}
}

// machineRoutes are about files, who is let in, and this machine.
func machineRoutes() []Route {
	return []Route{
		route(fetch, "GET /v1/store", "What this peer's store of files holds", get(Backend.StoreUsage)),
		route(fetch, "POST /v1/files/have", "Which of some blobs are here whole", post(Backend.HaveBlobs)),
		route(fetch, "POST /v1/files/get", "Bring blobs, from other peers if need be", getFiles()),
		route(hand, "PUT /v1/files", "Keep a file or a folder", putFiles()),
		route(hand, "DELETE /v1/files", "Let go of what was put here", unput(), "ref: what PUT /v1/files answered"),

		route(administer, "GET /v1/tickets", "The tickets that let peers in", get(Backend.Invites)),
		route(administer, "POST /v1/tickets", "Make a ticket", post(Backend.Invite)),
		route(administer, "DELETE /v1/tickets/{id}", "End a ticket", doID(Backend.Revoke)),
		route(administer, "POST /v1/thaw", "Have tasks of vanished peers replaced", get(Backend.Thaw)),
		route(administer, "POST /v1/leave", "End this peer's own membership, and stop it", do(Backend.Leave)),
		route(administer, "POST /v1/down", "Stop this peer; it will be back", do(Backend.Down)),
		route(administer, "GET /v1/recover", "From which copy a new ledger would be made", get(Backend.PlanRecover)),
		route(administer, "POST /v1/recover", "Make a new ledger while nobody can decide", post(Backend.Recover)),
		route(own, "GET /v1/tokens", "The tokens that let programs in over TCP", get(Backend.AccessTokens)),
		route(own, "POST /v1/tokens", "Make such a token", post(Backend.CreateToken)),
		route(own, "DELETE /v1/tokens/{id}", "End such a token", doID(Backend.RevokeToken)),
		route(own, "POST /v1/web", "Let a browser on this machine in", post(Backend.OpenWeb)),
		route(own, "GET /debug/pprof/{id}", "What this peer's process does: heap, goroutine, profile, trace", profile(), "seconds: how long, for profile and trace"),
		route(own, "POST /v1/testnet/block", "Cut this peer off from others, in a testnet", block()),
	}
}

// route is a line of the table; each of query is "name: what it does".
func route(want right, pattern, about string, c Call, query ...string) Route {
	r := Route{Pattern: pattern, About: about, Call: c, want: want}
	for _, q := range query {
		name, about, _ := strings.Cut(q, ": ")
		r.Query = append(r.Query, Param{name, about})
	}
	return r
}

//go:embed openapi.json
var openapi string

// OpenAPI is the document of the API, in OpenAPI 3.1: a test makes it of Routes, the types in it
// and their comments.
func OpenAPI() string { return openapi }

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
