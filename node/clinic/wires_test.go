package clinic

import (
	"testing"

	"github.com/coveyproject/covey/internal/golden"
)

func TestTheWordsOfTheProtocolStayWhatTheyAre(t *testing.T) {
	golden.Wires(t, "wires.txt", golden.Wire{Name: Protocol, Frames: map[string]any{"question": &question{}, "answer": &answer{}}})
}
