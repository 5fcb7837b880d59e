package view

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"covey/dispatch/ledger"
	"covey/node/api"
)

func TestAPeerThatIsStillStartingDoesNotSayHowThingsStand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := New(Config{Boot: "this", Up: make(chan struct{}), Now: time.Now, Replica: ledger.NewReplica()}) // has nothing that it could list
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		err := v.Watch(ctx, "another.7", func(e api.Event) error {
			t.Errorf("told %+v", e)
			return nil
		})
		if err != nil || time.Since(began) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if err := v.Watch(t.Context(), "rubbish", nil); api.AsError(err).Code != api.Usage {
			t.Errorf("a token that is none: %v", err)
		}
	})
}

func TestAPeerThatIsStillStartingTellsWhatHappensToItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := New(Config{Boot: "this", Up: make(chan struct{}), Now: time.Now, Replica: ledger.NewReplica()})
		v.hub.append([]event{{kind: kindPeer, state: "alive"}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var got []string
		if err := v.Watch(ctx, "this.0", func(e api.Event) error { got = append(got, e.Kind); return nil }); err != nil {
			t.Error(err)
		}
		if len(got) != 1 || got[0] != kindPeer {
			t.Errorf("%v", got)
		}
	})
}
