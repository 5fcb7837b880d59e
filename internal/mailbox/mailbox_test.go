package mailbox_test

import (
	"sync"
	"testing"

	"github.com/coveyproject/covey/internal/mailbox"
)

func TestEverythingThatIsPutIsTakenOnceAndInOrder(t *testing.T) {
	const senders, each = 4, 1000
	b := mailbox.New[[2]int]()
	var all sync.WaitGroup
	for s := range senders {
		all.Go(func() {
			for i := range each {
				b.Put([2]int{s, i})
			}
		})
	}
	var next [senders]int
	for left := senders * each; left > 0; {
		<-b.News()
		got := b.Take()
		for _, v := range got {
			if v[1] != next[v[0]] {
				t.Fatalf("of sender %d came %d, want %d", v[0], v[1], next[v[0]])
			}
			next[v[0]]++
		}
		left -= len(got)
	}
	all.Wait()
	if got := b.Take(); got != nil {
		t.Errorf("there is more: %v", got)
	}
}
