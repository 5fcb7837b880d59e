package membership

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/coveyproject/covey/internal/golden"
)

func TestFramesAreAsTheirVersionHasThem(t *testing.T) {
	golden.Wires(
		t, "wires.txt",
		golden.Wire{Name: fmt.Sprint(PacketProtocol, " words ", metaVersion), Frames: map[string]any{"meta": &meta{}, "hint": &Hint{}, "signed record": &recordSigned{}}},
		golden.Wire{Name: ProbeProtocol, Frames: map[string]any{"probe": &probeRequest{}, "probe answer": &probeAnswerFrame{}}},
	)
}

// memberlist's own messages are as it writes them; these are the ones that are read here, too.
func TestMessagesAreAsMemberlistWritesThem(t *testing.T) {
	var b strings.Builder
	for _, v := range []any{&aliveBody{}, &accuseBody{}, &pingBody{}, &stateHeader{}, &stateBody{}} {
		golden.Fill(reflect.ValueOf(v).Elem(), 1, nil)
		fmt.Fprintf(&b, "%s: %q\n", reflect.TypeOf(v).Elem().Name(), encodeMessage(0, v))
	}
	golden.Freeze(t, PacketProtocol+" "+SyncProtocol, b.String())
	if err := golden.Check("testdata/messages.txt", b.String()); err != nil {
		t.Error(err)
	}
}

func TestWhatIsSignedIsAsEveryVersionHasIt(t *testing.T) {
	data, err := recordBytes("peer", 1, []byte{2})
	if err != nil {
		t.Fatal(err)
	}
	golden.Freeze(t, "signed record 1", fmt.Sprintf("%x", data))
}
