package taskstate_test

import (
	"maps"
	"slices"
	"testing"

	. "github.com/coveyproject/covey/taskstate"
)

func BenchmarkMergeOfABatch(b *testing.B) {
	const size = 500
	k := &book{applied: 1, rows: map[TaskID]row{}}
	var running, done []Status
	for slot := 1; slot <= size; slot++ {
		k.rows[task(slot)] = row{peer: ann, inc: life, index: 1}
		running = append(running, status(slot, 1, Running, 1))
		done = append(done, status(slot, 2, Complete, 1))
	}
	p, err := EncodeBatch(says(ann, life, running...))
	if err != nil {
		b.Fatal(err)
	}
	q, _ := EncodeBatch(says(ann, life, done...))
	perStatus := func(b *testing.B, n int) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/status")
	}
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := DecodeBatch(p); err != nil {
				b.Fatal(err)
			}
		}
		perStatus(b, size)
	})
	b.Run("decode, merge and forget", func(b *testing.B) {
		b.ReportAllocs()
		tab := NewTable(k, 0)
		ids := slices.Collect(maps.Keys(k.rows))
		for b.Loop() {
			for _, raw := range [][]byte{p, q} {
				batch, err := DecodeBatch(raw)
				if err != nil {
					b.Fatal(err)
				}
				if news, _ := tab.Merge(batch); len(news) != size {
					b.Fatal(len(news))
				}
			}
			tab.Forget(ids...)
		}
		perStatus(b, 2*size)
	})
}
