package blob

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/coveyproject/covey/internal/golden"
	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/p2p/wire"
)

func TestFramesAreAsTheirVersionHasThem(t *testing.T) {
	golden.Wires(t, "wires.txt", golden.Wire{Name: Protocol, Frames: map[string]any{"question": &question{}, "answer": &answer{}}})
}

// Whatever a peer sends, a question that is taken asks for no more than there may be, and is the
// same when it is written again.
func FuzzQuestion(f *testing.F) {
	for _, q := range []question{
		{Have: [][]byte{make([]byte, 32)}},
		{Proof: spanOf(piece.Root{1}, 2, 3)},
		{Get: spanOf(piece.Root{1}, 1<<20, MaxRead)},
		{Bad: spanOf(piece.Root{1}, 4, 1)},
		{Get: &span{Root: []byte{1}, At: -1, N: 1 << 62}},
	} {
		b, err := wire.Marshal(q)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var q, again question
		if wire.Unmarshal(b, &q) != nil || q.validate() != nil {
			return
		}
		if q.Get != nil && (q.Get.N > MaxRead || q.Get.At+q.Get.N > piece.MaxSize) || q.Proof != nil && q.Proof.N*valueSize > MaxRead {
			t.Fatalf("%+v", q)
		}
		out, err := wire.Marshal(q)
		if err != nil || wire.Unmarshal(out, &again) != nil || !reflect.DeepEqual(q, again) {
			t.Fatalf("%x becomes %x, %v", b, out, err)
		}
	})
}

func FuzzAnswer(f *testing.F) {
	half := piece.NewBitmap(9)
	half.Set(4)
	for _, a := range []answer{
		{Held: []held{{Size: 9 << 20, Map: half.Bytes()}, {}, {Size: -1, Map: []byte{1}}}},
		{Raw: 1 << 40},
		{Error: &Error{Code: CodeBusy, Message: "m"}},
	} {
		b, err := wire.Marshal(a)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var a answer
		if wire.Unmarshal(b, &a) != nil {
			return
		}
		for _, h := range a.Held {
			size, has := h.pieces()
			if has == nil {
				continue
			}
			if has.Len() != piece.Count(size) || has.Have() == 0 || !bytes.Equal(has.Bytes(), h.Map) {
				t.Fatalf("%+v becomes %d bytes, %d pieces", h, size, has.Have())
			}
		}
		if a.Error != nil && len(a.Error.Error()) > 1000 && len(a.Error.Code) < 1000 {
			t.Fatal("a long message is shown whole")
		}
	})
}
