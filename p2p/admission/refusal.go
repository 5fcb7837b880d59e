package admission

import "strings"

// RefusalCode says why a newcomer was not let in. Only who proves an invite's secret hears more
// than Refused.
type RefusalCode string

// The codes of a refusal.
const (
	Expired       RefusalCode = "expired"
	UsedUp        RefusalCode = "used-up"
	Revoked       RefusalCode = "revoked"
	Removed       RefusalCode = "removed"     // the peer, by another, or its key was revoked
	UsedBefore    RefusalCode = "used-before" // the ticket let this very peer in before its membership ended
	Refused       RefusalCode = "refused"
	WrongCluster  RefusalCode = "wrong-cluster"
	NoCoordinator RefusalCode = "no-coordinator" // not now: nobody decides, or it could not be reached
	Later         RefusalCode = "later"          // not now: others with the same ticket are coming in
	TooOld        RefusalCode = "too-old"        // the cluster speaks what this version does not read
)

// Refusal is a cluster's no. It is an error whose text says what happened, why, and what to do.
type Refusal struct {
	Code    RefusalCode `cbor:"1,keyasint"`
	Message string      `cbor:"2,keyasint,omitempty"` // a detail for people, may be empty; never sent with Refused
}

// Error explains the code to the person who tried to join.
func (r *Refusal) Error() string {
	s := r.explain()
	if r.Message != "" {
		s += " (" + r.Message + ")"
	}
	return s
}

func (r *Refusal) explain() string {
	const again = "; ask for a new one: `peer ticket` on a peer of the cluster"
	switch r.Code {
	case Expired:
		return "the ticket has expired" + again
	case UsedUp:
		return "the ticket has been used as often as it may be" + again
	case Revoked:
		return "the ticket was revoked" + again
	case Removed:
		return "this peer was removed from the cluster, and no ticket lets its key in again; to join as a new peer, type `peer up --new-identity --join TICKET`"
	case UsedBefore:
		return "this peer joined with this ticket before, and a ticket lets a peer in once" + again
	case WrongCluster:
		return "the ticket is for another cluster than the one that answered; a peer belongs to one cluster, use another `--data` folder for a second one"
	case NoCoordinator:
		return "no coordinator can decide about newcomers right now; try again in a few seconds"
	case Later:
		return "others with this ticket are being let in first; try again in a few seconds"
	case TooOld:
		return "this version of peer is too old for the cluster: install the newer version here and try again"
	default:
		return "the cluster refused this peer; join with a ticket made by `peer ticket` on one of its peers (a removed peer needs a new one; one of another cluster opens nothing here)"
	}
}

// Temporary tells whether asking again later may help.
func (r *Refusal) Temporary() bool { return r.Code == NoCoordinator || r.Code == Later }

// told is what is sent for r: an unknown code or a plain refusal says nothing else to a stranger.
func (r *Refusal) told() *Refusal {
	switch r.Code {
	case Expired, UsedUp, Revoked, Removed, UsedBefore, WrongCluster, NoCoordinator, Later, TooOld:
		return &Refusal{Code: r.Code, Message: strings.ToValidUTF8(r.Message[:min(len(r.Message), 256)], "")} // half a character is no text
	}
	return &Refusal{Code: Refused}
}
