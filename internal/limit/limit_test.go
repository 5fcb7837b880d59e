package limit_test

import (
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/internal/limit"
)

func TestNoMoreAreServedThanInAllAndOfEach(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all, each := rapid.IntRange(1, 6).Draw(t, "all"), rapid.IntRange(1, 4).Draw(t, "each")
		l, in, total := limit.New(all, each), map[string]int{}, 0
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			who := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "who")
			if in[who] > 0 && rapid.Bool().Draw(t, "leaves") {
				l.Leave(who)
				in[who]--
				total--
				continue
			}
			if got, want := l.Enter(who), total < all && in[who] < each; got != want {
				t.Fatalf("with %d in, %d of them %s: let in %v, want %v", total, in[who], who, got, want)
			} else if got {
				in[who]++
				total++
			}
		}
	})
}

func TestClosingEndsWhatIsUnderWayAndWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, ended, closed := limit.New(2, 2), make(chan struct{}), make(chan struct{})
		if !l.Enter("a") {
			t.Fatal("the first was not let in")
		}
		go func() {
			l.Close(func() { close(ended) })
			close(closed)
		}()
		synctest.Wait()
		<-ended
		if l.Enter("a") {
			t.Error("one was let in after the end")
		}
		select {
		case <-closed:
			t.Error("it did not wait for the one inside")
		default:
		}
		l.Leave("a")
		<-closed
	})
}
