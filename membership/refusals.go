package membership

import (
	"log/slog"
	"maps"
	"sync"
	"time"
)

// reason says why something that a member sent was not believed.
type reason string

// The reasons. What is never sent by honest software is logged as a warning and shown; the others
// happen in bad networks, too.
const (
	notOurs   reason = "what no peer of this version sends"
	forged    reason = "records that their subject did not sign"
	ahead     reason = "accusations above what the accused ever said" // honest news can overtake other news
	disproved reason = "accusations of peers that answered"
	tooMuch   reason = "more than one peer may say"
)

// honest tells whether a member that does as it should may give this reason now and then.
func (r reason) honest() bool { return r != notOurs && r != forged }

// refusalLog is how often the log speaks of one peer.
const refusalLog = time.Minute

// refusals counts what was not believed, by who sent it. Only admitted peers get so far, so it is
// bounded.
type refusals struct {
	log *slog.Logger

	mu    sync.Mutex
	all   map[reason]int64
	peers map[string]*refusal
}

type refusal struct {
	n      int64
	since  int64 // of n, not logged yet
	logged time.Time
}

// note counts one; example says what it was, for the log.
func (r *refusals) note(peer string, why reason, example string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[why]++
	if why.honest() {
		return
	}
	p := r.peers[peer]
	if p == nil {
		p = &refusal{}
		r.peers[peer] = p
	}
	p.n++
	p.since++
	if now := time.Now(); p.logged.IsZero() || now.Sub(p.logged) >= refusalLog {
		r.log.Warn("a peer sends "+string(why)+": nothing of it is believed. Who runs that machine, and which version?",
			"peer", peer, "so often", p.since, "what", example)
		p.logged, p.since = now, 0
	}
}

// Refused is how often something that a member sent was not believed, by reason.
func (m *Membership) Refused() map[string]int64 {
	r := m.refusals
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string]int64{}
	for why, n := range r.all {
		out[string(why)] = n
	}
	return out
}

// Liars are the members that sent what honest software never sends, and how often.
func (m *Membership) Liars() map[string]int64 {
	r := m.refusals
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string]int64{}
	for peer, p := range maps.All(r.peers) {
		out[peer] = p.n
	}
	return out
}
