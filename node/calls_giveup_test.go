package node

import (
	"context"
	"testing"
)

func TestACallIsGivenUpOnlyWhenSomebodyElseThanTheAskedCoordinates(t *testing.T) {
	l := alive(t, Config{Name: "one"})
	ctx, giveUp := context.WithCancel(timed(t))
	l.untilAnotherDecides(ctx, "12D3KooWSomebodyWhoUsedToCoordinate", giveUp)
	if ctx.Err() == nil {
		t.Error("goes on asking one that does not coordinate any more")
	}
	ctx, end := context.WithCancel(timed(t))
	end()
	l.untilAnotherDecides(ctx, l.self, func() { t.Error("gives up a call to the one that coordinates") })
}
