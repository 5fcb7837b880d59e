package taskstate

// DefaultParkLimit is how many statuses wait for their assignment at most: as many as a busy flock reports in a second or two.
const DefaultParkLimit = 32768

// parking holds statuses that came before the news of their assignment. When it is full the status that has waited longest goes:
// a lost status costs nothing but time, because the digest exchange and the author's session bring it again.
type parking struct {
	limit int
	size  int
	spots map[parkKey]parkedStatus
	queue []parkKey // oldest first; may name spots that are empty by now
}

type parkKey struct {
	author PeerID
	inc    Incarnation
	task   TaskID
}

type parkedStatus struct {
	author PeerID
	inc    Incarnation
	status Status
}

func newParking(limit int) parking { return parking{limit: limit, spots: map[parkKey]parkedStatus{}} }

// put parks a status; of one author's statuses about one task only the greatest stays.
func (p *parking) put(author PeerID, inc Incarnation, s Status) {
	k := parkKey{author, inc, s.Task}
	if old, ok := p.spots[k]; ok {
		p.spots[k] = parkedStatus{author, inc, Join(old.status, s)}
		return
	}
	for p.size >= p.limit {
		oldest := p.queue[0]
		p.queue = p.queue[1:]
		p.remove(oldest)
	}
	p.spots[k] = parkedStatus{author, inc, s}
	p.queue = append(p.queue, k)
	p.size = len(p.spots)
}

func (p *parking) remove(k parkKey) {
	delete(p.spots, k)
	p.size = len(p.spots)
}

// due takes out the statuses whose assignment a replica at index applied must know.
func (p *parking) due(applied uint64) []parkedStatus {
	if p.size == 0 {
		return nil
	}
	var out []parkedStatus
	kept := p.queue[:0]
	for _, k := range p.queue {
		s, ok := p.spots[k]
		switch {
		case !ok:
		case s.status.Index <= applied:
			out = append(out, s)
			p.remove(k)
		default:
			kept = append(kept, k)
		}
	}
	p.queue = kept
	return out
}
