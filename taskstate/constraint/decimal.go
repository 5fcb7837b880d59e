package constraint

import (
	"cmp"
	"strings"
)

// maxDecimal caps the digits of a number that is compared, far above any that means something.
const maxDecimal = 64

// decimal tells whether s is a plain decimal number: an optional sign, digits, at most one point.
// No exponent, no infinity.
func decimal(s string) bool {
	if len(s) > maxDecimal {
		return false
	}
	_, whole, fraction := splitDecimal(s)
	return (whole != "" || fraction != "") && allDigits(whole) && allDigits(fraction)
}

func allDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

func splitDecimal(s string) (sign int, whole, fraction string) {
	sign = 1
	if s != "" && (s[0] == '-' || s[0] == '+') {
		if s[0] == '-' {
			sign = -1
		}
		s = s[1:]
	}
	whole, fraction, _ = strings.Cut(s, ".")
	return sign, whole, fraction
}

// compareDecimals compares two numbers exactly, however many digits they have.
func compareDecimals(a, b string) int {
	aSign, aWhole, aFraction := magnitude(a)
	bSign, bWhole, bFraction := magnitude(b)
	if aSign != bSign {
		return cmp.Compare(aSign, bSign)
	}
	return aSign * cmp.Or(cmp.Compare(len(aWhole), len(bWhole)), strings.Compare(aWhole, bWhole), strings.Compare(aFraction, bFraction))
}

// magnitude drops the zeroes that do not count; the sign of zero is 0.
func magnitude(s string) (sign int, whole, fraction string) {
	sign, whole, fraction = splitDecimal(s)
	whole, fraction = strings.TrimLeft(whole, "0"), strings.TrimRight(fraction, "0")
	if whole == "" && fraction == "" {
		sign = 0
	}
	return sign, whole, fraction
}
