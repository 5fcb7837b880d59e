package doctor

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// aWhile is how long a peer is away before somebody should decide about it.
const aWhile = 24 * time.Hour

func (l *list) voters(v Voters) {
	n := len(*l)
	if v.Coordinator == "" {
		l.fail("voters", "start those that are missing; if they are gone for good: `peer recover`", "no coordinator: %s", waiting(v))
		return
	}
	if len(v.Missing) > 0 {
		l.warn("voters", "start them, or `peer remove NAME` for one that is gone for good", "of %s that vote these do not answer: %s", many(v.Seats, "peer"), few(v.Missing))
	}
	if v.Frozen != "" {
		l.warn("voters", "`peer thaw`, if they are really gone", "tasks of vanished peers stay where they are: %s", v.Frozen)
	}
	for _, name := range slices.Sorted(maps.Keys(v.Away)) {
		if a := v.Away[name]; a.Since > aWhile && !slices.Contains(v.Missing, name) {
			l.warn("voters", fmt.Sprintf("start it, or `peer remove %s` if it is gone for good", name), "%s has not been here for %s", name, span(a.Since))
		}
	}
	switch {
	case v.Seats > 1 && v.Seats%2 == 0:
		l.warn("voters", "let one more machine decide: `peer ticket` for a new one, `peer roles` for one that is here", "%d peers decide, of which %d have to be up: one fewer would bear as much", v.Seats, v.Seats/2+1)
	case v.Seats == 1 && v.May > 1:
		do := "let a third machine decide: `peer ticket`"
		if v.May > 2 {
			do = "wait until others have caught up; if that lasts, `peer doctor --all` may say why"
		}
		l.warn("voters", do, "only %s decides: all decisions are on its disk alone", v.Coordinator)
	}
	if len(*l) == n {
		if v.Seats == 1 {
			l.ok("voters", "%s alone decides", v.Coordinator)
		} else {
			l.ok("voters", "%s decide, and %s coordinates", many(v.Seats, "peer"), v.Coordinator)
		}
	}
}

func waiting(v Voters) string {
	switch {
	case v.Waiting != "":
		return "waiting for " + v.Waiting
	case len(v.Missing) > 0:
		return "waiting for " + few(v.Missing)
	}
	return "an election is under way"
}

// More elections in an hour than these say that something is wrong, or that nothing works well.
const (
	oftenElected  = 3
	alwaysElected = 30
)

func (l *list) elections(n int) {
	const do = "look for a slow disk (sync) or a bad link (relays) of the voters"
	switch {
	case n > alwaysElected:
		l.fail("elections", do, "%d coordinators were elected in the last hour", n)
	case n > oftenElected:
		l.warn("elections", do, "%d coordinators were elected in the last hour", n)
	default:
		l.ok("elections", "it saw %s in the last hour", many(n, "election"))
	}
}

func (l *list) versions(v Versions) {
	other := map[string][]string{}
	var untold []string
	for name, version := range v.Others {
		switch version {
		case v.Own:
		case "":
			untold = append(untold, name)
		default:
			other[version] = append(other[version], name)
		}
	}
	switch {
	case len(other) > 0:
	case len(v.Others) == 0:
		l.ok("versions", "it runs version %s, and no other peer is here", v.Own)
	case len(untold) > 0:
		l.ok("versions", "all run version %s, as far as is known: %s did not tell yet", v.Own, few(untold))
	default:
		l.ok("versions", "all run version %s", v.Own)
	}
	for _, version := range slices.Sorted(maps.Keys(other)) {
		l.warn("versions", "install the newer version where the older one is, one machine at a time", "version %s runs on %s, and %s here", version, few(other[version]), v.Own)
	}
}

func (l *list) names(ids []string) {
	if len(ids) == 0 {
		l.ok("names", "no other peer has its name")
		return
	}
	l.warn("names", "give one of them another: `peer up --name NAME`", "it has the name of %s: commands and constraints cannot tell them apart", few(ids))
}
