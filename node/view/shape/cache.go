package shape

import (
	"sync"
	"time"

	"github.com/coveyproject/covey/taskstate"
)

const (
	keepFor      = time.Minute // since somebody looked last
	keepRows     = 2 << 20     // of all jobs
	keepPictures = 8           // of each scan
	openFor      = 5 * time.Second
	payback      = 25 // a scan stands for so many times what it took
)

// Stamp tells whether anything has changed since a scan.
type Stamp struct {
	Ledger uint64 // index
	News   uint64 // of tasks, from their workers
	Ended  int64  // when the job ended; the others are 0 then: nothing changes any more
}

// Cache keeps facts and what was made of them. The zero value is ready to use, by many at once.
type Cache struct {
	mu    sync.Mutex
	jobs  map[taskstate.JobID]*looked
	timer *time.Timer
}

// looked is a job that was looked at.
type looked struct {
	last time.Time // by Cache.mu
	rows int       // by Cache.mu

	mu       sync.Mutex // held while a scan goes on
	facts    *Facts
	stamp    Stamp
	at       time.Time     // of the scan
	cost     time.Duration // of it, and of the pictures
	pictures map[string]any
}

// Look gives a picture of a job as it was at the stamp, or a little earlier where a scan is dear.
// key says which picture it is that draw makes.
func (c *Cache) Look(id taskstate.JobID, now Stamp, scan func() *Facts, key string, draw func(*Facts) any) any {
	l := c.of(id)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.stands(now) {
		began := time.Now()
		l.facts = scan()
		l.at, l.stamp, l.pictures = time.Now(), now, map[string]any{}
		l.cost = l.at.Sub(began)
		c.weigh(id, l, len(l.facts.Rows))
	}
	p, ok := l.pictures[key]
	if !ok {
		if len(l.pictures) == keepPictures {
			clear(l.pictures)
		}
		began := time.Now()
		p = draw(l.facts)
		l.cost += time.Since(began)
		l.pictures[key] = p
	}
	return p
}

// stands tells whether the facts are good enough still.
func (l *looked) stands(now Stamp) bool {
	if l.facts == nil {
		return false
	}
	age := time.Since(l.at)
	return age < payback*l.cost || l.stamp == now && (l.facts.Open == 0 || age < openFor)
}

func (c *Cache) of(id taskstate.JobID) *looked {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.jobs[id]
	if l == nil {
		if c.jobs == nil {
			c.jobs = map[taskstate.JobID]*looked{}
		}
		l = &looked{}
		c.jobs[id] = l
	}
	l.last = time.Now()
	if c.timer == nil {
		c.timer = time.AfterFunc(keepFor, c.tidy)
	}
	return l
}

// weigh notes how large a job is, and makes room for it.
func (c *Cache) weigh(id taskstate.JobID, l *looked, rows int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.rows = rows
	all := 0
	for _, x := range c.jobs {
		all += x.rows
	}
	for all > keepRows && len(c.jobs) > 1 {
		var oldest taskstate.JobID
		for k, x := range c.jobs {
			if k != id && (oldest == "" || x.last.Before(c.jobs[oldest].last)) {
				oldest = k
			}
		}
		all -= c.jobs[oldest].rows
		delete(c.jobs, oldest)
	}
}

// tidy forgets what nobody has looked at, and comes again as long as there is something.
func (c *Cache) tidy() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer = nil
	for id, l := range c.jobs {
		if time.Since(l.last) >= keepFor {
			delete(c.jobs, id)
		}
	}
	if len(c.jobs) > 0 {
		c.timer = time.AfterFunc(keepFor, c.tidy)
	}
}
