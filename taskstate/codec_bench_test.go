package taskstate_test

import (
	"testing"

	. "github.com/coveyproject/covey/taskstate"
)

func BenchmarkBatch(b *testing.B) {
	bt := Batch{Author: "12D3KooWLbTqyaE7bXb4wQn1d7d5b7Ck6mYv9J7o4X3u", Incarnation: "abcdefghijklmnop", Number: 17}
	for i := range 500 {
		bt.Statuses = append(bt.Statuses, Status{Task: Task("k3v5q7x2ab", i+1, 1), Seq: 3, State: Complete, Index: 1234, At: 1763800000000 + int64(i)})
	}
	p, err := EncodeBatch(bt)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("encode", func(b *testing.B) {
		b.ReportMetric(float64(len(p))/500, "bytes/status")
		for b.Loop() {
			_, _ = EncodeBatch(bt)
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := DecodeBatch(p); err != nil {
				b.Fatal(err)
			}
		}
	})
}
