package session

import (
	"cmp"
	"slices"

	"github.com/coveyproject/covey/taskstate"
)

// Prove adds to a grant what shows that its items are the job's.
func (g *Grant) Prove(all *taskstate.ItemTree) {
	slots, _ := g.itemsBySlot()
	g.Proof = all.Prove(slots)
}

// Proven tells whether a grant's items are those that the job's order was signed for. Without an
// order nobody can tell, and nothing is asked.
func (g *Grant) Proven(j *taskstate.Job) bool {
	switch {
	case j.Order == nil:
		return true
	case len(j.Order.Items) == 0 || len(g.Items) == 0:
		return len(j.Order.Items) == 0 && len(g.Items) == 0
	}
	slots, items := g.itemsBySlot()
	return taskstate.CheckItems(j.Order.Items, j.Count, slots, items, g.Proof) == nil
}

// itemsBySlot lists the slots of a grant, ascending and each once, and their items. Two attempts of
// one slot have one item; where they have not, there are more items than slots.
func (g *Grant) itemsBySlot() (slots []int, items []string) {
	type slotItem struct {
		slot int
		item string
	}
	var all []slotItem
	for id := range g.Tasks() {
		if n := len(all); n < len(g.Items) {
			all = append(all, slotItem{id.Slot, g.Items[n]})
		}
	}
	slices.SortFunc(all, func(a, b slotItem) int { return cmp.Or(cmp.Compare(a.slot, b.slot), cmp.Compare(a.item, b.item)) })
	for _, x := range slices.Compact(all) {
		if n := len(slots); n == 0 || slots[n-1] != x.slot {
			slots = append(slots, x.slot)
		}
		items = append(items, x.item)
	}
	return slots, items
}
