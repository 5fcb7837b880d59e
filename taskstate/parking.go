package taskstate

// DefaultParkLimit is how many statuses wait for their assignment at most: as many as a busy
// cluster reports in a second or two.
const DefaultParkLimit = 32768

// What one author may park at most: this part of all, and so many bytes.
const (
	parkShare      = 4
	parkShareLeast = 8192
	parkBytes      = 8 << 20
)

// maxAhead is how many ledger entries a status may be ahead of this replica: no replica is ever so
// far behind.
const maxAhead = 1 << 32

// parking holds statuses that came before the news of their assignment. When it is full the author
// with the most makes room with the one that has waited longest, so that nobody crowds out the
// others; and so it does when it has its share. What was lost here is told by Table.Spilled.
type parking struct {
	limit    int
	spilt    bool // something was lost
	again    bool // … and something else came due since: others of that time may be due, too
	size     int
	next     uint64 // no parked status is due before the replica reaches this index
	byAuthor map[PeerID]*authorParking
}

type authorParking struct {
	spots map[parkKey]parkedStatus
	queue []parkKey // oldest first
	bytes int
}

type parkKey struct {
	inc  Incarnation
	task TaskID
}

type parkedStatus struct {
	author PeerID
	inc    Incarnation
	status Status
}

// put parks a status; of one author's statuses about one task only the greatest stays.
func (p *parking) put(author PeerID, inc Incarnation, s Status) {
	if p.size == 0 || s.Index < p.next {
		p.next = s.Index
	}
	l := p.byAuthor[author]
	if l == nil {
		l = &authorParking{spots: map[parkKey]parkedStatus{}}
		p.byAuthor[author] = l
	}
	k := parkKey{inc, s.Task}
	if old, ok := l.spots[k]; ok {
		next := Join(old.status, s)
		l.bytes += next.parkedSize() - old.status.parkedSize()
		l.spots[k] = parkedStatus{author, inc, next}
	} else {
		l.spots[k] = parkedStatus{author, inc, s}
		l.queue = append(l.queue, k)
		l.bytes += s.parkedSize()
		p.size++
	}
	for len(l.queue) > max(p.limit/parkShare, parkShareLeast) || l.bytes > parkBytes {
		p.drop(author)
	}
	if p.size > p.limit {
		p.evict()
	}
}

// parkedSize is about how many bytes a status holds while it is parked.
func (s *Status) parkedSize() int {
	return 400 + len(s.Task.Job) + len(s.Reason) + len(s.Message) + s.Saved.Size()
}

func (p *parking) evict() {
	var from PeerID
	most := 0
	for author, l := range p.byAuthor {
		if n := len(l.queue); n > most || n == most && author < from {
			from, most = author, n
		}
	}
	p.drop(from)
}

func (p *parking) drop(from PeerID) {
	p.spilt = true
	l := p.byAuthor[from]
	l.remove(l.queue[0])
	l.queue = l.queue[1:]
	p.size--
	if len(l.queue) == 0 {
		delete(p.byAuthor, from)
	}
}

func (l *authorParking) remove(k parkKey) parkedStatus {
	s := l.spots[k]
	l.bytes -= s.status.parkedSize()
	delete(l.spots, k)
	return s
}

func (p *parking) forget(author PeerID) {
	if l := p.byAuthor[author]; l != nil {
		p.size -= len(l.queue)
		delete(p.byAuthor, author)
	}
}

// due takes out the statuses whose assignment a replica at index applied must know.
func (p *parking) due(applied uint64) []parkedStatus {
	if p.size == 0 || applied < p.next {
		return nil
	}
	var out []parkedStatus
	p.next = ^uint64(0)
	for author, l := range p.byAuthor {
		kept := l.queue[:0]
		for _, k := range l.queue {
			s := l.spots[k]
			if s.status.Index > applied {
				kept = append(kept, k)
				p.next = min(p.next, s.status.Index)
				continue
			}
			out = append(out, l.remove(k))
			p.size--
		}
		l.queue = kept
		if len(kept) == 0 {
			delete(p.byAuthor, author)
		}
	}
	if p.spilt && len(out) > 0 {
		p.spilt, p.again = false, true
	}
	return out
}
