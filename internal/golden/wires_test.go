package golden

import (
	"fmt"
	"strings"
	"testing"
)

// said hears what a test would be told.
type said struct{ errors []string }

func (s *said) Helper()                      {}
func (s *said) Errorf(f string, args ...any) { s.errors = append(s.errors, fmt.Sprintf(f, args...)) }

// held is what Wires says of one frame of a protocol.
func held(name string, frame any) []string {
	var s said
	Wires(&s, "wires.txt", Wire{Name: name, Frames: map[string]any{"frame": frame}})
	return s.errors
}

type (
	inner struct {
		A string `cbor:"1,keyasint"`
	}
	list struct {
		_ struct{} `cbor:",toarray"`
		N int
	}
	rest struct {
		Two  *inner  `cbor:"2,keyasint,omitempty"`
		Many []inner `cbor:"3,keyasint,omitempty"`
		List list    `cbor:"4,keyasint"`
	}
	before struct {
		One int `cbor:"1,keyasint"`
		rest
	}
	renamed struct { // nothing of it is on the wire
		Uno  int     `cbor:"1,keyasint"`
		Due  *inner  `cbor:"2,keyasint,omitempty"`
		Many []inner `cbor:"3,keyasint,omitempty"`
		List list    `cbor:"4,keyasint"`
	}
	renumbered struct {
		One int `cbor:"9,keyasint"`
		rest
	}
	retyped struct {
		One string `cbor:"1,keyasint"`
		rest
	}
	grown struct {
		before
		Five int `cbor:"5,keyasint,omitempty"`
	}
	grownLater struct {
		before
		Five int `cbor:"5,keyasint,omitempty" dialect:"9"`
	}
	innerGrown struct {
		A string `cbor:"1,keyasint"`
		B string `cbor:"2,keyasint,omitempty"`
	}
	deeper struct {
		One  int          `cbor:"1,keyasint"`
		Two  *inner       `cbor:"2,keyasint,omitempty"`
		Many []innerGrown `cbor:"3,keyasint,omitempty"`
		List list         `cbor:"4,keyasint"`
	}
	listGrown struct {
		_ struct{} `cbor:",toarray"`
		N int
		M int
	}
	longer struct {
		One  int       `cbor:"1,keyasint"`
		Two  *inner    `cbor:"2,keyasint,omitempty"`
		Many []inner   `cbor:"3,keyasint,omitempty"`
		List listGrown `cbor:"4,keyasint"`
	}
)

func TestAFrameChangesOnlyWithItsVersionOrItsDialect(t *testing.T) {
	t.Chdir(t.TempDir())
	updating(t, true)
	if all := held("/x/1", &before{}); len(all) > 0 {
		t.Fatal(all)
	}
	for what, c := range map[string]struct {
		name  string
		frame any
		fails bool
	}{
		"the same":                     {"/x/1", &before{}, false},
		"other names in Go":            {"/x/1", &renamed{}, false},
		"a field of the next dialect":  {"/x/1", &grownLater{}, false},
		"another number":               {"/x/1", &renumbered{}, true},
		"another type":                 {"/x/1", &retyped{}, true},
		"another field":                {"/x/1", &grown{}, true},
		"a field within":               {"/x/1", &deeper{}, true},
		"a longer array":               {"/x/1", &longer{}, true},
		"another field and version":    {"/x/2", &grown{}, false},
		"one frame less of what is so": {"/x/1", &inner{}, true},
	} {
		all := held(c.name, c.frame)
		if failed := len(all) > 0; failed != c.fails || failed && !strings.Contains(all[0], "version has not") {
			t.Errorf("%s: %q", what, all)
		}
	}
	held("/y/1", &inner{}) // the file is of this one now
	*update = false
	if all := held("/x/1", &before{}); len(all) == 0 || !strings.Contains(strings.Join(all, " "), "now, and was") {
		t.Errorf("the file of another frame: %q", all)
	}
	if all := held("/x/3", &grown{}); len(all) == 0 || !strings.Contains(all[0], "-update writes its fingerprint") {
		t.Errorf("nothing is known of it: %q", all)
	}
}
