package wire_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/coveyproject/covey/p2p/wire"
)

type deep struct {
	Old string `cbor:"1,keyasint,omitempty"`
	New string `cbor:"2,keyasint,omitempty" dialect:"3"`
}

type layered struct {
	Kept string `cbor:"1,keyasint,omitempty"`
	Next int    `cbor:"2,keyasint,omitempty" dialect:"2"`
	One  *deep  `cbor:"3,keyasint,omitempty"`
	Many []deep `cbor:"4,keyasint,omitempty"`
}

func TestWhatAValueNeedsIsTheNewestFieldItSets(t *testing.T) {
	for want, v := range map[int]any{
		1: layered{Kept: "k", One: &deep{Old: "o"}, Many: []deep{{Old: "o"}}},
		2: layered{Next: 1, One: &deep{Old: "o"}},
		3: &layered{Many: []deep{{}, {New: "n"}}},
	} {
		if got := wire.Needs(v); got != want {
			t.Errorf("%+v needs %d, want %d", v, got, want)
		}
	}
	if got := wire.Needs(nil); got != 1 {
		t.Errorf("nothing needs %d", got)
	}
}

func TestClippedIsWhatADialectReads(t *testing.T) {
	full := func() *layered {
		return &layered{Kept: "k", Next: 1, One: &deep{"o", "n"}, Many: []deep{{"o", "n"}}}
	}
	for dialect, want := range map[int]*layered{
		1: {Kept: "k", One: &deep{Old: "o"}, Many: []deep{{Old: "o"}}},
		2: {Kept: "k", Next: 1, One: &deep{Old: "o"}, Many: []deep{{Old: "o"}}},
		3: full(),
	} {
		v := full()
		wire.Clip(v, dialect)
		if !reflect.DeepEqual(v, want) || wire.Needs(v) > dialect {
			t.Errorf("in dialect %d it is %+v, want %+v", dialect, v, want)
		}
	}
}

func TestAFieldNobodyKnowsIsToldFromNonsense(t *testing.T) {
	b, err := wire.Marshal(layered{Many: []deep{{New: "n"}}})
	if err != nil {
		t.Fatal(err)
	}
	type older struct {
		Many []struct {
			Old string `cbor:"1,keyasint,omitempty"`
		} `cbor:"4,keyasint,omitempty"`
	}
	if err := wire.Unmarshal(b, new(older)); !errors.Is(err, wire.ErrUnknown) || !errors.Is(err, wire.ErrMalformed) {
		t.Error(err)
	}
	for _, torn := range [][]byte{b[:len(b)-1], append(b[:len(b):len(b)], 0), nil} {
		if err := wire.Unmarshal(torn, new(layered)); errors.Is(err, wire.ErrUnknown) || !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("%x: %v", torn, err)
		}
	}
}
