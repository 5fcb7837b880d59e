package admission

import (
	"strings"
	"testing"

	"github.com/coveyproject/covey/internal/golden"
)

func TestFramesAreAsTheirVersionHasThem(t *testing.T) {
	golden.Wires(
		t, "wires.txt",
		golden.Wire{Name: JoinProtocol, Frames: map[string]any{"join": &JoinRequest{}, "join answer": &answerFrame{}}},
		golden.Wire{Name: RosterProtocol, Frames: map[string]any{"show": &showRequest{}}},
		golden.Wire{Name: "ticket", Frames: map[string]any{"ticket": &ticketBody{}}},
		golden.Wire{Name: "file " + strings.TrimSpace(rosterMagic), Frames: map[string]any{"roster": &rosterFile{}}},
		golden.Wire{Name: "file " + strings.TrimSpace(seatsMagic), Frames: map[string]any{"seats": &seatsFile{}}},
	)
}
