// Package golden holds what is written, to a disk or to others, against files that say how it was:
// for the tests of what must go on reading it. `go test PACKAGE -update` writes the files anew,
// but for fingerprints, which stay what they were.
package golden

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
)

var update = flag.Bool("update", false, "write the golden files anew")

// T is the part of testing.TB that is needed here.
type T interface {
	Helper()
	Errorf(format string, args ...any)
}

// Updating tells whether golden files are written instead of compared with.
func Updating() bool { return *update }

// Check compares text with a file, line by line; the error says where they differ. With -update it
// writes the file first.
func Check(path, got string) error {
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			return err
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if line, is, was := difference(got, string(want)); line > 0 {
		return fmt.Errorf("%s:%d is\n%s\nnow, and was\n%s\nwith -update it is written anew", path, line, is, was)
	}
	return nil
}

// difference finds the first line, counted from 1, in which texts differ; 0 if none.
func difference(a, b string) (line int, inA, inB string) {
	if a == b {
		return 0, "", ""
	}
	as, bs := strings.SplitAfter(a, "\n"), strings.SplitAfter(b, "\n")
	for i := range max(len(as), len(bs)) {
		inA, inB = "", ""
		if i < len(as) {
			inA = as[i]
		}
		if i < len(bs) {
			inB = bs[i]
		}
		if inA != inB {
			return i + 1, strings.TrimSuffix(inA, "\n"), strings.TrimSuffix(inB, "\n")
		}
	}
	return 0, "", ""
}

// Fill gives every exported field of a value something of its own in its struct, n to begin with,
// so that a field which is left out, renamed, renumbered or exchanged shows. own fills what wants a
// value of a certain form, and tells whether it did; nil: nothing does. Functions stay as they are.
// It panics on kinds that are never written.
func Fill(v reflect.Value, n int, own func(reflect.Value, int) bool) {
	if own != nil && own(v, n) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		Fill(v.Elem(), n, own)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() || f.Anonymous {
				Fill(v.Field(i), i+1, own)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		Fill(v.Index(0), n, own)
	case reflect.Array:
		for i := range v.Len() {
			Fill(v.Index(i), n, own)
		}
	case reflect.Map:
		k, x := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		Fill(k, n, own)
		Fill(x, n+1, own)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(k, x)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString(fmt.Sprint("s", n))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(n))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(n))
	case reflect.Float64:
		v.SetFloat(float64(n) / 4)
	case reflect.Func:
	default:
		panic(v.Type())
	}
}
