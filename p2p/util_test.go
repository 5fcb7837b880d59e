package p2p_test

import "strconv"

func itoa(n int) string { return strconv.Itoa(n) }
