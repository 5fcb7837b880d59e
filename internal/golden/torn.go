package golden

import "slices"

// Torn damages a file in every way a disk does to one bit of it, or to its end, and wants none of
// that believed.
func Torn(t T, whole []byte, believed func([]byte) bool) {
	t.Helper()
	for i := range 8 * len(whole) {
		torn := slices.Clone(whole)
		torn[i/8] ^= 1 << (i % 8)
		if believed(torn) {
			t.Errorf("with bit %d flipped it is believed: %q", i, torn)
			return
		}
	}
	for n := range whole {
		if believed(whole[:n]) {
			t.Errorf("cut after %d bytes it is believed", n)
			return
		}
	}
}
