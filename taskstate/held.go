package taskstate

import "slices"

// Held is what a task was kept from when it ran, as who started it saw it done: never what was
// asked for. It is a set of HeldKnown and others.
type Held uint16

// HeldKnown says that all of it is said. Without it, nothing is known: the task never ran, or under
// a program that did not say.
const HeldKnown Held = 1

// heldWords are the words of the bits above HeldKnown, from the lowest: those of Confinement that
// stand for the same. Bits are never used again.
var heldWords = [...]string{HoldsNNP, HoldsHide, RequireUser, RequireLandlock, IsolateFS, RequireNet, RequireCgroup, HoldsLimits, IsolateStrong}

// Words says it for people and programs, sorted: nil if nothing is known, and empty if the task was
// kept from nothing.
func (h Held) Words() []string {
	if h&HeldKnown == 0 {
		return nil
	}
	words := []string{}
	for i, w := range heldWords {
		if h>>(i+1)&1 != 0 {
			words = append(words, w)
		}
	}
	slices.Sort(words)
	return words
}
