package pause_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/internal/pause"
)

func TestAPauseLastsAsLongAsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := pause.For(t.Context(), time.Hour); err != nil || time.Since(began) != time.Hour {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

func TestAPauseEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if err := pause.For(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Minute {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

func TestNoPauseIsOverAtOnceAndStillTellsThatTheCallerHasNoTime(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	if err := pause.For(ctx, 0); err != nil {
		t.Error(err)
	}
	cancel()
	if err := pause.For(ctx, -time.Second); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
