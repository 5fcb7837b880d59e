// Package verdict names what a peer thinks of another's life: membership concludes it, and the
// coordinator, which knows nothing of gossip, acts on it.
package verdict

// Verdict is what this peer thinks of another's life. It is an observation.
type Verdict uint8

// The verdicts; but for None, from good to bad.
const (
	None    Verdict = iota // gossip here has never heard of the peer
	Alive                  // it answers
	Suspect                // silent so far, or refused to us alone
	Dead                   // silent for too long, gone for two of us, said goodbye, or never met since this peer started
)

// String is the lower-case word.
func (v Verdict) String() string {
	switch v {
	case Alive:
		return "alive"
	case Suspect:
		return "suspect"
	case Dead:
		return "dead"
	}
	return "unknown"
}
