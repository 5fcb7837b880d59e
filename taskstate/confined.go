package taskstate

import "slices"

// Confined is what a task was kept from when it ran, as who started it saw it done: never what was
// asked for. It is a set of ConfinedKnown and others.
type Confined uint16

// ConfinedKnown says that all of it is said. Without it, nothing is known: the task never ran, or
// under a program that did not say.
const ConfinedKnown Confined = 1

// confinedWords are the words of the bits above ConfinedKnown, from the lowest: those of
// Confinement that stand for the same. Bits are never used again.
var confinedWords = [...]string{HoldsNNP, HoldsHide, RequireUser, RequireLandlock, IsolateFS, RequireNet, RequireCgroup, HoldsLimits, IsolateStrong}

// Words says it for people and programs, sorted: nil if nothing is known, and empty if the task was
// kept from nothing.
func (h Confined) Words() []string {
	if h&ConfinedKnown == 0 {
		return nil
	}
	words := []string{}
	for i, w := range confinedWords {
		if h>>(i+1)&1 != 0 {
			words = append(words, w)
		}
	}
	slices.Sort(words)
	return words
}
