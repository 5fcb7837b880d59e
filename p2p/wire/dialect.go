package wire

import (
	"fmt"
	"reflect"
	"strconv"
	"sync"
)

// DialectTag is the key of the struct tag that says from which dialect on a field is read:
// `dialect:"2"`. A field without it is of dialect 1.
const DialectTag = "dialect"

// Needs is the lowest dialect whose peers read all of v: that of the newest field that is set.
func Needs(v any) int {
	n := 1
	visit(reflect.ValueOf(v), func(_ reflect.Value, dialect int) { n = max(n, dialect) })
	return n
}

// Clip empties those fields of what v points to that peers of a dialect do not read. It is for what
// goes without them: what does not is refused by the peer that is asked for it (see Needs).
func Clip(v any, dialect int) {
	visit(reflect.ValueOf(v), func(f reflect.Value, d int) {
		if d > dialect {
			f.SetZero()
		}
	})
}

// visit calls f with every field that is set and has a dialect. What cannot hold one is not looked
// at, so that in a program of one dialect it costs a look into a map.
func visit(v reflect.Value, f func(field reflect.Value, dialect int)) {
	if !v.IsValid() || !layered(v.Type()) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		visit(v.Elem(), f)
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			visit(v.Index(i), f)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if d := dialectOf(v.Type().Field(i)); d > 1 && !v.Field(i).IsZero() {
				f(v.Field(i), d)
			}
			visit(v.Field(i), f)
		}
	}
}

func dialectOf(f reflect.StructField) int {
	tag, ok := f.Tag.Lookup(DialectTag)
	if !ok {
		return 1
	}
	n, err := strconv.Atoi(tag)
	if err != nil || n < 2 {
		panic(fmt.Sprintf("wire: field %s has a dialect that is none: %q", f.Name, tag))
	}
	return n
}

// layers remembers of types whether something in them has a dialect.
var layers sync.Map

func layered(t reflect.Type) bool {
	if known, ok := layers.Load(t); ok {
		return known.(bool)
	}
	found := layeredWithin(t, map[reflect.Type]bool{})
	layers.Store(t, found)
	return found
}

// layeredWithin does not look into maps, whose values cannot be changed in place.
func layeredWithin(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return layeredWithin(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); dialectOf(f) > 1 || layeredWithin(f.Type, seen) {
				return true
			}
		}
	}
	return false
}
