package load

import "testing"

func BenchmarkLook(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		read()
	}
}
