package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"covey/p2p/wire"
	"covey/taskstate"
)

// fill gives every field of a value something of its own in its struct, n to begin with, so that a field which is left out, renumbered or
// exchanged shows.
func fill(v reflect.Value, n int) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() || v.Type().Field(i).Anonymous {
				fill(v.Field(i), i+1)
			}
		}
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[[]Command]() {
			v.Set(reflect.ValueOf(oneOfEach()))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), n)
	case reflect.Map:
		k, x := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(k, n)
		fill(x, n+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(k, x)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString(fmt.Sprint("s", n))
		if v.Type() == reflect.TypeFor[taskstate.Counts]() {
			v.Set(reflect.ValueOf(taskstate.CountsOf(map[string]int64{"gpus": int64(n)})))
		}
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(n))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(n))
	case reflect.Float64:
		v.SetFloat(float64(n) / 4)
	default:
		panic(v.Type())
	}
}

// oneOfEach is every command there is.
func oneOfEach() (out []Command) {
	for i := range reflect.TypeFor[Command]().NumField() {
		var c Command
		fill(reflect.ValueOf(&c).Elem().Field(i), 1)
		out = append(out, c)
	}
	return out
}

// shapes are all values of this package that are on a disk or travel.
func shapes() map[string]any {
	out := map[string]any{}
	for name, v := range map[string]any{
		"entry": &Entry{}, "snapshot": &snapshot{}, "memo": &memo{}, "raft hello": &raftHello{},
		"follow hello": &followHello{}, "follow frame": &followFrame{}, "voter ask": &voterAsk{}, "voter answer": &voterAnswer{},
	} {
		fill(reflect.ValueOf(v).Elem(), 1)
		out[name] = v
	}
	return out
}

// What older peers wrote is read for ever, so numbers of fields are never changed nor used again: a line of this file that changes,
// other than by something that is new at its end, is a ledger that can no longer be read.
func TestEveryShapeKeepsItsNumbers(t *testing.T) {
	const path = "testdata/shapes.txt"
	var got bytes.Buffer
	all := shapes()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		said, err := cbor.Diagnose(encoded(t, all[name]))
		if err != nil {
			t.Fatal(name, err)
		}
		fmt.Fprintf(&got, "%s: %s\n", name, strings.NewReplacer("}, {", "},\n  {").Replace(said))
	}
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	a, b := strings.Split(got.String(), "\n"), strings.Split(string(want), "\n")
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || a[i] != b[i] {
			t.Fatalf("%s:%d is\n%s\nnow, and was\n%s\nwith UPDATE_GOLDEN=1 it is written anew", path, i+1, strings.Join(a[min(i, len(a)):], "\n"), strings.Join(b[min(i, len(b)):], "\n"))
		}
	}
}

func encoded(t testing.TB, v any) []byte {
	t.Helper()
	b, err := wire.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestEveryShapeIsReadAsItWasWritten(t *testing.T) {
	for name, v := range shapes() {
		back := reflect.New(reflect.TypeOf(v).Elem()).Interface()
		if err := wire.Unmarshal(encoded(t, v), back); err != nil || !bytes.Equal(encoded(t, back), encoded(t, v)) {
			t.Errorf("%s: %v\n is %+v\nwas %+v", name, err, back, v)
		}
	}
}

// A field this program does not know is said by a newer one, and may mean that nothing else is as it seems: it is never passed over.
func TestAFieldFromTheFutureIsRefusedAndNotPassedOver(t *testing.T) {
	for name, v := range shapes() {
		var fields map[int]cbor.RawMessage
		if err := cbor.Unmarshal(encoded(t, v), &fields); err != nil {
			t.Fatal(name, err)
		}
		fields[99] = cbor.RawMessage{0x01}
		back := reflect.New(reflect.TypeOf(v).Elem()).Interface()
		if err := wire.Unmarshal(encoded(t, fields), back); !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("%s with another field: %v", name, err)
		}
	}
}
