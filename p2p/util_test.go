package p2p_test

import (
	"context"
	"strconv"
	"time"
)

func itoa(n int) string { return strconv.Itoa(n) }

func timeout(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}
