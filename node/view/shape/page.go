package shape

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/coveyproject/covey/taskstate"
)

// Sorts are the orders a page may have; with a minus before it, the other way round.
var Sorts = [...]string{"slot", "took", "started", "ended"}

// Query is which slots a page is to have.
type Query struct {
	States []taskstate.State // of these; none: of all
	Peer   taskstate.PeerID  // of this one; "": of all
	Sort   string            // one of Sorts, or its opposite; "" is slot
	After  string            // what Page said of the page before; "": from the beginning
	Limit  int               // at least 1
}

// place is where a slot stands in an order.
type sortKey struct {
	key  int64
	slot uint32
}

func (p sortKey) compare(o sortKey) int {
	return cmp.Or(cmp.Compare(p.key, o.key), cmp.Compare(p.slot, o.slot))
}

// Page lists the slots that a query asks for, in its order, tells how many there are in all, and
// what to ask for the next ones with; "" if these are the last.
func (f *Facts) Page(q Query) (slots []int, all int, next string, err error) {
	key, err := keyOf(q.Sort)
	if err != nil {
		return nil, 0, "", err
	}
	after, begun, err := parseAfter(q.After)
	if err != nil {
		return nil, 0, "", err
	}
	var states uint64
	for _, s := range q.States {
		states |= 1 << (s / 16)
	}
	var found []sortKey
	rows := f.newest()
	for i := range rows {
		r := &rows[i]
		if states != 0 && states&(1<<(r.State/16)) == 0 || q.Peer != "" && f.Peer(r) != q.Peer {
			continue
		}
		all++
		p := sortKey{key(r), r.Slot}
		if begun && p.compare(after) <= 0 {
			continue
		}
		if found = append(found, p); len(found) > 2*q.Limit+1 { // what is kept stays small, whatever the job
			slices.SortFunc(found, sortKey.compare)
			found = found[:q.Limit+1]
		}
	}
	slices.SortFunc(found, sortKey.compare)
	if len(found) > q.Limit {
		found = found[:q.Limit]
		last := found[len(found)-1]
		next = fmt.Sprintf("%d.%d", last.key, last.slot)
	}
	for _, p := range found {
		slots = append(slots, int(p.slot))
	}
	return slots, all, next, nil
}

// keyOf is what rows are sorted by.
func keyOf(sort string) (func(*Row) int64, error) {
	name, down := strings.CutPrefix(cmp.Or(sort, Sorts[0]), "-")
	var key func(*Row) int64
	switch name {
	case "slot":
		key = func(r *Row) int64 { return int64(r.Slot) }
	case "took":
		key = func(r *Row) int64 { return int64(r.Took) }
	case "started":
		key = func(r *Row) int64 { return r.Start }
	case "ended":
		key = func(r *Row) int64 {
			if r.Open {
				return 0
			}
			return r.end()
		}
	default:
		return nil, fmt.Errorf("sort %q: expected one of %s, or with - before it the other way round", sort, strings.Join(Sorts[:], ", "))
	}
	if down {
		return func(r *Row) int64 { return -key(r) }, nil
	}
	return key, nil
}

func parseAfter(text string) (p sortKey, ok bool, err error) {
	if text == "" {
		return sortKey{}, false, nil
	}
	key, slot, _ := strings.Cut(text, ".")
	k, err1 := strconv.ParseInt(key, 10, 64)
	n, err2 := strconv.ParseUint(slot, 10, 32)
	if err1 != nil || err2 != nil {
		return sortKey{}, false, fmt.Errorf("after %q: expected what an answer before gave as next", text)
	}
	return sortKey{k, uint32(n)}, true, nil
}
