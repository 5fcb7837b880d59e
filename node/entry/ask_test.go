package entry

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/p2p/admission"
)

func TestANewcomerSaysWhyItWaitsOnceAndThenNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said []string
		k := &joinAttempt{e: New(Config{Say: func(s string) { said = append(said, s) }})}
		undecided, busy := &admission.Refusal{Code: admission.NoCoordinator}, errors.New("reset")
		for range 20 { // ten seconds
			k.wait(undecided)
			time.Sleep(500 * time.Millisecond)
		}
		k.wait(busy)
		for range 60 { // a minute
			k.wait(busy)
			time.Sleep(time.Second)
		}
		want := []string{
			"not let in yet: " + undecided.Error() + "; this peer goes on asking",
			"not let in yet: a peer there is reached but has no time for newcomers (reset); this peer goes on asking",
			"not let in yet: a peer there is reached but has no time for newcomers (reset); this peer goes on asking",
		}
		if !slices.Equal(said, want) {
			t.Errorf("%q", said)
		}
	})
}
