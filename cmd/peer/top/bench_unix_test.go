//go:build unix

package top

import (
	"encoding/json"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/coveyproject/covey/node/api"
)

// What a second of the screen costs with 20 peers and 100 jobs: answers as JSON are read, taken in
// and drawn. Divided by a second it is the share of a core.
func BenchmarkASecondOfTheScreen(b *testing.B) {
	s := cluster(noon, 200)
	for i := len(s.Peers.Peers); i < 20; i++ {
		p := s.Peers.Peers[1]
		p.ID, p.Name, p.Coordinator = fmt.Sprint("12D3", i), fmt.Sprint("peer", i), false
		s.Peers.Peers = append(s.Peers.Peers, p)
	}
	for i := len(s.Jobs); i < 100; i++ {
		j := s.Jobs[i%3]
		j.ID = fmt.Sprint("job", i)
		s.Jobs = append(s.Jobs, j)
	}
	peers, err1 := json.Marshal(s.Peers)
	jobs, err2 := json.Marshal(api.Jobs{Jobs: s.Jobs})
	story, err3 := json.Marshal(api.Story{Story: s.Story})
	if err1 != nil || err2 != nil || err3 != nil {
		b.Fatal(err1, err2, err3)
	}
	m := &Model{Width: 80, Height: 24, Colour: true}
	processor := func() time.Duration { // time this process got
		var r syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
		return time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	began := processor()
	for i := 0; b.Loop(); i++ {
		var p api.Peers
		var j api.Jobs
		var t api.Story
		if json.Unmarshal(peers, &p) != nil || json.Unmarshal(jobs, &j) != nil || json.Unmarshal(story, &t) != nil {
			b.Fatal("no answer")
		}
		m.Seen(Seen{At: noon.Add(time.Duration(i) * time.Second), Peers: &p, Jobs: j.Jobs, Story: t.Story})
		if len(m.Lines()) != 24 {
			b.Fatal("no screen")
		}
	}
	b.ReportMetric(float64((processor()-began).Microseconds())/1000/float64(b.N), "cpu-ms/op")
}
