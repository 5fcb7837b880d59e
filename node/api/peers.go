package api

import (
	"context"
	"fmt"
	"time"
)

// Stopped is the standing of a peer that was ended by hand and said goodbye: nobody waits for it.
const Stopped = "stopped"

// PeerKeeper changes what peers are for. A peer may be whatever a person types: its id, a unique
// part of it, its name, or `self`, the peer that is asked.
type PeerKeeper interface {
	// Peer tells about one peer.
	Peer(ctx context.Context, peer string) (PeerAnswer, error)
	// SetAvailability decides whether a peer takes tasks. It holds also for one that is away.
	SetAvailability(ctx context.Context, peer string, a Availability) (PeerAnswer, error)
	// SetLabels lays labels over those that a peer says of itself, or hides some.
	SetLabels(ctx context.Context, peer string, l Labels) (PeerAnswer, error)
	// SetRoles says what a peer may do.
	SetRoles(ctx context.Context, peer string, r Roles) (PeerAnswer, error)
	// Draining calls send with what is left on a drained peer, whenever that changes, until nothing
	// is. It fails with Conflict when the peer is not drained, or not any more.
	// Output that no other peer can take ends it with an error, after a line that has Sole.
	Draining(ctx context.Context, peer string, send func(Draining) error) error
}

// The words of Availability.
const (
	Active  = "active"
	Paused  = "pause"
	Drained = "drain"
)

// PeerAnswer answers GET /v1/peers/{id} and what changes a peer: its row after that.
type PeerAnswer struct {
	Peer Peer      `json:"peer"`
	AsOf time.Time `json:"as_of"`
}

// Load is how busy a machine is with all that runs on it. What its system does not tell is left
// out.
type Load struct {
	CPU      *float64 `json:"cpu,omitempty"`       // share of all its processors that was busy, 0 to 1
	Memory   *int64   `json:"memory,omitempty"`    // bytes in use
	MemoryOf int64    `json:"memory_of,omitempty"` // bytes it has
	Average  *float64 `json:"average,omitempty"`   // programs that ran or wanted to, over a minute
}

// PeerLoad answers GET /v1/peers/{id}/load: how busy a peer's machine was for an hour.
type PeerLoad struct {
	Peer     string    `json:"peer"`
	PeerName string    `json:"peer_name"`
	Now      *Load     `json:"now,omitempty"`
	Step     float64   `json:"step"` // seconds between two of Hour
	Hour     []*Load   `json:"hour"` // of one step each, the last ends at as_of; null where the peer was not up
	AsOf     time.Time `json:"as_of"`
}

// Availability is the body of POST /v1/peers/{id}/availability.
type Availability struct {
	Availability string  `json:"availability"`     // active: takes tasks; pause: no new ones; drain: what runs goes elsewhere, too
	Grace        float64 `json:"grace,omitempty"`  // drain: seconds for which tasks of batch jobs that run may go on
	Reason       string  `json:"reason,omitempty"` // for people
}

// Roles is the body of POST /v1/peers/{id}/roles: all that the peer is to have.
type Roles struct {
	Roles []string `json:"roles"`
}

// Labels is the body of POST /v1/peers/{id}/labels: what to set, and what is not to be there any
// more, whatever its source.
type Labels struct {
	Set   map[string]string `json:"set,omitempty"`
	Unset []string          `json:"unset,omitempty"`
}

// Draining is one line of GET /v1/peers/{id}/drain: the tasks on a drained peer whose end is not
// acknowledged yet. The line with nothing left is the last.
type Draining struct {
	Peer  string     `json:"peer"`
	Name  string     `json:"name"`
	Left  int        `json:"left"`
	Tasks []Task     `json:"tasks,omitempty"` // the first of them
	Only  int        `json:"only,omitempty"`  // tasks that left files of which no other peer that is here and stays has a copy
	Sole  int        `json:"sole,omitempty"`  // tasks whose output (what they printed) no other peer that is here and stays has
	Jobs  []string   `json:"jobs,omitempty"`  // theirs, or some of them
	Note  string     `json:"note,omitempty"`  // what keeps them, where it is not they themselves
	Until *time.Time `json:"until,omitempty"` // tasks of batch jobs may go on until then
}

// OneSeat is the warning that all decisions are on one machine's disk, though so many machines may
// hold a seat in the ledger. Only an admin is told what to type.
func OneSeat(who string, may int, admin bool) string {
	if may > 2 {
		return fmt.Sprintf("only %s holds a seat: until others have caught up, all decisions are on its disk alone", who)
	}
	how := "that an admin lets in to decide"
	if admin {
		how = "that may decide (`peer ticket`)"
	}
	return fmt.Sprintf("only %s holds a seat: all decisions are on its disk alone. A third machine %s makes it three seats", who, how)
}

// Links answers GET /v1/links: which peers are connected to which, each as the one at its From end
// sees it.
type Links struct {
	Links  []Link    `json:"links"`
	Silent []string  `json:"silent"` // names of peers that are here and did not answer in half a second
	AsOf   time.Time `json:"as_of"`
}

// Link is a connection between two peers.
type Link struct {
	From     string  `json:"from"`
	FromName string  `json:"from_name"`
	To       string  `json:"to"`
	ToName   string  `json:"to_name"`
	Path     string  `json:"path"` // direct relayed
	RTT      float64 `json:"rtt"`  // seconds, 0 if unknown
}
