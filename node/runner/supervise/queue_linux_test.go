package supervise

import (
	"bufio"
	"fmt"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// arrivals reads events and the moment each came, until the connection ends.
func arrivals(c net.Conn) <-chan []string {
	done, began := make(chan []string, 1), time.Now()
	go func() {
		var got []string
		for r := bufio.NewReader(c); ; {
			body, err := readFrame(r, nil)
			if err != nil {
				done <- got
				return
			}
			e, err := decodeEvent(body)
			got = append(got, fmt.Sprint(e.Kind, " ", e.Task, " ", time.Since(began)))
			if err != nil {
				got = append(got, err.Error())
			}
		}
	}()
	return done
}

func TestTheNewsThatATaskRunsWaitsForItsEndButNotForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer, c := net.Pipe()
		q, got := newQueue(c), arrivals(peer)
		say := func(kind Kind, task string, then time.Duration) {
			q.add(Event{Kind: kind, Task: task})
			time.Sleep(then)
		}
		say(Started, "a", time.Millisecond)
		say(Started, "b", 10*time.Millisecond) // five after the first
		say(Started, "c", time.Millisecond)
		say(Ended, "d", 10*time.Millisecond) // takes with it what waits; its timer finds nothing
		say(Refused, "e", 0)
		say(Started, "f", 0)
		say(Lost, "g", time.Millisecond)
		say(Started, "h", time.Minute) // waits anew
		q.close()
		if events, want := <-got, []string{
			"1 a 5ms", "1 b 5ms", "1 c 12ms", "3 d 12ms", "2 e 22ms", "1 f 22ms", "4 g 22ms", "1 h 28ms",
		}; !slices.Equal(events, want) {
			t.Errorf("arrived %q\nnot     %q", events, want)
		}
	})
}

func TestAPeerThatDoesNotReadHoldsNobodyUpAndGetsAllInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer, c := net.Pipe()
		q, began := newQueue(c), time.Now()
		var want []string
		for i := range 5000 {
			kind := Kind(1 + i%4)
			q.add(Event{Kind: kind, Task: fmt.Sprint(i), Err: "a long story"})
			want = append(want, fmt.Sprint(kind, " ", i, " 0s"))
			if i == 100 {
				synctest.Wait() // the first are being written now, to nobody
			}
		}
		if d := time.Since(began); d != 0 {
			t.Errorf("it was held up for %s", d)
		}
		got := arrivals(peer)
		synctest.Wait()
		q.close()
		if events := <-got; !slices.Equal(events, want) {
			t.Errorf("%d of %d events arrived, or in another order", len(events), len(want))
		}
	})
}

func TestWhatIsSaidToAPeerThatIsGoneIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer, c := net.Pipe()
		q := newQueue(c)
		_ = peer.Close()
		q.add(Event{Kind: Ended, Task: "a"})
		synctest.Wait()
		if _, err := c.Write([]byte{0}); err == nil { // the supervisor's reader sees that, too
			t.Error("the connection is open")
		}
		q.add(Event{Kind: Started, Task: "b"})
		q.add(Event{Kind: Ended, Task: "b"})
		q.close()
		q.close() // as a timer that comes late finds it
		q.ripe()
	})
}
