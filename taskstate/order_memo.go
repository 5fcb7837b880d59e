package taskstate

import (
	"sync"
	"weak"
)

// OrderMemo remembers which jobs were found to be signed, or not, so that the tasks of one job cost
// one look at its signature. The zero value is empty; it is safe for concurrent use. A job must not
// change once it was looked at.
type OrderMemo struct {
	mu   sync.Mutex
	seen map[weak.Pointer[Job]]signedIn
}

type signedIn struct {
	cluster string
	err     error
}

// mostOrders bounds what a memo remembers; above it, it begins anew.
const mostOrders = 1024

// Check is Launch.CheckOrder.
func (m *OrderMemo) Check(l *Launch, cluster string, now int64, verify func(by PeerID, data, sig []byte) error) error {
	if err := l.fits(); err != nil {
		return err
	}
	if err := m.signed(l.Job, cluster, verify); err != nil {
		return err
	}
	return l.Job.checkTime(now)
}

func (m *OrderMemo) signed(j *Job, cluster string, verify func(by PeerID, data, sig []byte) error) error {
	key := weak.Make(j)
	m.mu.Lock()
	known, ok := m.seen[key]
	m.mu.Unlock()
	if ok && known.cluster == cluster {
		return known.err
	}
	known = signedIn{cluster, j.checkSigned(cluster, verify)}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen == nil || len(m.seen) >= mostOrders {
		m.seen = map[weak.Pointer[Job]]signedIn{}
	}
	m.seen[key] = known
	return known.err
}
