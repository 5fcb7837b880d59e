package metrics

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coveyproject/covey/node/api"
)

// What goes up and down. Labels follow the help.
var (
	buildInfo        = desc("build_info", "1, with what this peer is.", "version", "goversion")
	peers            = desc("peers", "Members by standing, as this peer sees them.", "standing")
	coordinator      = desc("coordinator", "1 if this peer coordinates, otherwise 0.")
	coordinatorKnown = desc("coordinator_known", "1 if this peer knows of a coordinator, otherwise 0.")
	voters           = desc("voters", "Peers with a seat in the ledger, by whether they answer, as this peer sees them.", "answering")
	ledgerIndex      = desc("ledger_applied_index", "Index of the newest ledger entry that this peer has applied.")
	dataFree         = desc("data_free_bytes", "Free room on the disk with this peer's data folder.")
	jobs             = desc("jobs", "Jobs in the ledger by state, as this peer sees them.", "state")
	jobsHeld         = desc("jobs_held", "Jobs on this peer's disk that no coordinator has accepted yet.")
	tasks            = desc("tasks", "Tasks of all jobs in the ledger by state, as this peer sees them.", "state")
	slotsWaiting     = desc("slots_waiting", "Tasks that wait, by what for: a coordinator, another job (after), the end of a freeze, or a peer with room and leave (place).", "cause")
	cpus             = desc("cpus", "Processors of this peer: offered to tasks, used by what runs, promised to what has not begun.", "kind")
	memory           = desc("memory_bytes", "Memory of this peer: offered to tasks, promised to what runs.", "kind")
	links            = desc("links", "This peer's connections to other members by path.", "path")
	linkRTT          = desc("link_rtt_seconds", "Round trips to other members over this peer's links: the median, and the slowest.")
	gossipDropped    = desc("gossip_dropped_total", "Messages of gossip that this peer dropped because there were too many.")
	sessionUp        = desc("session_up", "1 if the coordinator gives this peer tasks, otherwise 0.")
	faults           = desc("faults_total", "What members sent this peer that honest software does not, by kind.", "kind")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("covey_"+name, help, labels, nil)
}

// snapshot is one look at everything that goes up and down. What could not be seen is not told.
type snapshot []prometheus.Metric

func (s snapshot) Describe(chan<- *prometheus.Desc) {} // unchecked: what it tells differs

func (s snapshot) Collect(to chan<- prometheus.Metric) {
	for _, m := range s {
		to <- m
	}
}

func (s *snapshot) gauge(d *prometheus.Desc, v float64, labels ...string) {
	*s = append(*s, prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...))
}

func (s *snapshot) counter(d *prometheus.Desc, v float64, labels ...string) {
	*s = append(*s, prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...))
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// look asks for everything that goes up and down.
func (m *Meter) look(ctx context.Context) snapshot {
	var (
		s    snapshot
		both sync.WaitGroup
		ps   api.Peers
		js   api.Jobs
		perr error
		jerr error
	)
	both.Go(func() { ps, perr = m.from.Peers(ctx) }) // both ask the coordinator: at once
	both.Go(func() { js, jerr = m.from.Jobs(ctx) })
	s.gauge(buildInfo, 1, m.from.Version, goVersion())
	who, known := m.from.Coordinator()
	s.gauge(coordinatorKnown, one(known))
	s.gauge(coordinator, one(known && who == m.from.Self))
	all, answering := m.from.Seats()
	s.gauge(voters, float64(answering), "yes")
	s.gauge(voters, float64(all-answering), "no")
	s.gauge(ledgerIndex, float64(m.from.Applied()))
	if free, ok := m.from.Free(); ok {
		s.gauge(dataFree, float64(free))
	}
	s.counter(gossipDropped, float64(m.from.Dropped()))
	for kind, n := range m.from.Faults() {
		s.counter(faults, float64(n), kind)
	}
	both.Wait()
	if perr == nil {
		s.peers(ps)
	}
	if jerr == nil {
		s.jobs(js, known, ps.Frozen)
	}
	return s
}

// peers tells of members, and of this peer among them.
func (s *snapshot) peers(ps api.Peers) {
	standings, paths := map[string]int{}, map[string]int{"direct": 0, "relayed": 0, "none": 0}
	var rtts []float64
	for i := range ps.Peers {
		p := &ps.Peers[i]
		standings[p.Standing]++
		if p.Self {
			s.self(p)
			continue
		}
		paths[p.Path]++
		if p.RTT > 0 {
			rtts = append(rtts, p.RTT)
		}
	}
	for standing, n := range standings {
		s.gauge(peers, float64(n), standing)
	}
	for path, n := range paths {
		s.gauge(links, float64(n), path)
	}
	if len(rtts) == 0 {
		return
	}
	slices.Sort(rtts)
	sum := 0.0
	for _, r := range rtts {
		sum += r
	}
	*s = append(*s, prometheus.MustNewConstSummary(linkRTT, uint64(len(rtts)), sum, map[float64]float64{0.5: rtts[len(rtts)/2], 1: rtts[len(rtts)-1]}))
}

func (s *snapshot) self(p *api.Peer) {
	s.gauge(sessionUp, one(p.Standing == ready))
	for kind, v := range map[string]float64{"offered": p.CPUs, "running": p.CPUsRunning, "queued": p.CPUsQueued} {
		s.gauge(cpus, v, kind)
	}
	for kind, v := range map[string]int64{"offered": p.Memory, "running": p.MemoryUsed} {
		s.gauge(memory, float64(v), kind)
	}
}

// Words of api.Peer and api.Job.
const (
	ready   = "ready"
	held    = "held"
	pending = "pending"
)

// jobs tells of jobs and their tasks, and what those wait for.
func (s *snapshot) jobs(js api.Jobs, led, frozen bool) {
	ofJobs, ofTasks, waiting := map[string]int{}, map[string]int{}, map[string]int{"coordinator": 0, "after": 0, "freeze": 0, "place": 0}
	for i := range js.Jobs {
		j := &js.Jobs[i]
		ofJobs[j.State]++
		for state, n := range j.Tasks {
			ofTasks[state] += n
		}
		waiting[cause(j, led, frozen)] += j.Tasks[pending]
	}
	s.gauge(jobsHeld, float64(ofJobs[held]))
	for state, n := range ofJobs {
		s.gauge(jobs, float64(n), state)
	}
	for state, n := range ofTasks {
		s.gauge(tasks, float64(n), state)
	}
	for why, n := range waiting {
		s.gauge(slotsWaiting, float64(n), why)
	}
}

// cause is what the pending tasks of a job wait for.
func cause(j *api.Job, led, frozen bool) string {
	switch {
	case j.State == held || !led:
		return "coordinator"
	case len(j.After) > 0:
		return "after"
	case frozen:
		return "freeze"
	}
	return "place"
}

// ScrapeFor bounds one scrape: Prometheus waits 10 s by default.
const ScrapeFor = 5 * time.Second
