package api

import "fmt"

// OneSeat is the warning that all decisions are on one machine's disk, though so many machines may
// hold a seat in the ledger.
func OneSeat(who string, may int) string {
	if may > 2 {
		return fmt.Sprintf("only %s holds a seat: until others have caught up, all decisions are on its disk alone", who)
	}
	return fmt.Sprintf("only %s holds a seat: all decisions are on its disk alone. A third machine that may decide (`peer ticket`) makes it three seats", who)
}
