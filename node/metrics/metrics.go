package metrics

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

// Sources is what a scrape asks. All are called by whoever scrapes, and must not wait long after
// their context has ended.
type Sources struct {
	Self        taskstate.PeerID
	Version     string
	Peers       func(context.Context) (api.Peers, error)
	Jobs        func(context.Context) (api.Jobs, error)
	Coordinator func() (taskstate.PeerID, bool)
	Seats       func() (all, answering int) // of voters
	Applied     func() uint64               // ledger index
	Free        func() (bytes int64, ok bool)
	Dropped     func() int64            // messages of gossip that were too many
	Faults      func() map[string]int64 // what members did that honest software does not, by kind
}

// Meter counts. It is safe for concurrent use.
type Meter struct {
	from Sources
	kept *prometheus.Registry

	elections  prometheus.Counter
	ended      *prometheus.CounterVec
	superseded *prometheus.CounterVec
	requests   *prometheus.CounterVec
	wait, run  prometheus.Histogram
	commit     prometheus.Histogram
	sync       prometheus.Histogram
}

// Buckets, in seconds: of what a disk or the network does, and of what tasks do.
var (
	shortBuckets = []float64{0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5}
	taskBuckets  = []float64{0.01, 0.1, 1, 10, 60, 600, 3600, 6 * 3600, 24 * 3600}
)

// New begins to count.
func New(from Sources) *Meter {
	m := &Meter{from: from, kept: prometheus.NewRegistry()}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	hist := func(name, help string, buckets []float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	}
	m.elections = counter("covey_elections_total", "Coordinators that were elected, as this peer saw it.")
	m.superseded = vec("covey_tasks_superseded_total", "Attempts that were given up for another one in the cluster, as this peer saw it.", "reason")
	m.ended = vec("covey_tasks_ended_total", "Tasks of this peer that ended, by how and why.", "state", "reason")
	m.requests = vec("covey_api_requests_total", "Calls of this peer's local API, by route and HTTP status.", "route", "code")
	m.wait = hist("covey_task_wait_seconds", "How long tasks of this peer waited there before they started.", taskBuckets)
	m.run = hist("covey_task_run_seconds", "How long tasks of this peer ran that have ended.", taskBuckets)
	m.commit = hist("covey_ledger_commit_seconds", "How long decisions of this peer as coordinator took to be safe at a majority.", shortBuckets)
	m.sync = hist("covey_disk_sync_seconds", "How long writes to this peer's task journal took to be on its disk.", shortBuckets)
	m.kept.MustRegister(m.elections, m.superseded, m.ended, m.requests, m.wait, m.run, m.commit, m.sync,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Committed hears how long a decision took.
func (m *Meter) Committed(d time.Duration) { m.commit.Observe(d.Seconds()) }

// Synced hears how long a flush of the journal took.
func (m *Meter) Synced(d time.Duration) { m.sync.Observe(d.Seconds()) }

// Answered hears of a call that was answered. route is its pattern.
func (m *Meter) Answered(route string, status int) {
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
}

// Decided hears of an applied entry of the ledger. One that was replaced as a whole tells nothing.
func (m *Meter) Decided(ev ledger.Event) {
	if ev.Reset {
		return
	}
	for i := range ev.Entry.Commands {
		if i >= len(ev.Results) || ev.Refused(i) {
			continue
		}
		switch c := &ev.Entry.Commands[i]; {
		case c.Lead != nil:
			m.elections.Inc()
		case c.Settle != nil:
			m.settled(c.Settle, ev.Results[i])
		case c.Supersede != nil && !ev.Results[i].Existed:
			m.superseded.WithLabelValues(reason(c.Supersede.Reason)).Inc()
		}
	}
}

// settled counts the ends of this peer's tasks, but for those that changed nothing.
func (m *Meter) settled(c *ledger.Settle, r ledger.Result) {
	if c.Peer != m.from.Self {
		return
	}
	refused := r.Statuses
	for i := range c.Statuses {
		s := &c.Statuses[i]
		if len(refused) > 0 && refused[0] == s.Task {
			refused = refused[1:]
			continue
		}
		m.ended.WithLabelValues(s.State.String(), reason(s.Reason)).Inc()
		if s.Took > 0 {
			m.run.Observe(float64(s.Took) / 1000)
			m.wait.Observe(float64(s.Waited) / 1000)
		}
	}
}

// reason is a label; reasons of versions to come are others.
func reason(r taskstate.Reason) string {
	switch {
	case r == taskstate.ReasonNone:
		return "none"
	case !r.Known():
		return other
	}
	return string(r)
}

const other = "other"

// Metrics writes all numbers as they are now, in api.MetricsFormat. An error is that of w, or of
// ctx.
func (m *Meter) Metrics(ctx context.Context, w io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, ScrapeFor)
	defer cancel()
	now := prometheus.NewRegistry()
	if err := now.Register(m.look(ctx)); err != nil {
		return fmt.Errorf("gather metrics: %w", err)
	}
	families, err := prometheus.Gatherers{now, m.kept}.Gather()
	if err != nil {
		return fmt.Errorf("gather metrics: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	enc := expfmt.NewEncoder(w, expfmt.NewFormat(expfmt.TypeTextPlain))
	for _, f := range families {
		if err := enc.Encode(f); err != nil {
			return err
		}
	}
	return nil
}

// goVersion is what this program was built with.
func goVersion() string { return runtime.Version() }
