package placement

import "slices"

// spread hands tasks to the candidates with the fewest of the job, then with the fewest in total.
func spread(cands []candidate, t tier, n int, seed uint64) int {
	vs := make([]bucket, len(cands))
	for i := range cands {
		c := &cands[i]
		vs[i] = bucket{have: c.OfJob + c.given, room: c.limit(t) - c.given, total: c.Total + c.given, here: c.Here, id: c.ID}
	}
	given := fillLevel(vs, n, seed)
	for i := range vs {
		cands[i].given += vs[i].given
	}
	return given
}

type group struct {
	value   string
	have    int // tasks of the job on all its peers, also on those that take no more
	members []candidate
}

// spreadOver spreads over two levels: the tasks evenly over the values of a key, and those of a
// value over its peers.
func spreadOver(a *ask, cands []candidate, peers []Peer, seed uint64) func(t tier, n int) int {
	groups := a.groups(cands, peers)
	return func(t tier, n int) int {
		vs := make([]bucket, len(groups))
		for i := range groups {
			vs[i] = bucket{have: groups[i].have, id: groups[i].value}
			for _, c := range groups[i].members {
				vs[i].have += c.given
				room := c.limit(t) - c.given
				vs[i].room += room
				if room > 0 {
					vs[i].here = max(vs[i].here, c.Here)
				}
			}
		}
		given := fillLevel(vs, n, seed)
		for i := range groups {
			spread(groups[i].members, t, vs[i].given, seed)
		}
		return given
	}
}

// noValue stands for the value that peers without the key share; no label has it.
const noValue = "\x00"

// groups tells the groups, and sorts the candidates in place so that each group's are together.
func (a *ask) groups(cands []candidate, peers []Peer) []group {
	var groups []group
	index, of := map[string]int{}, make([]int, len(peers))
	for i := range peers {
		value := a.overValue(&peers[i])
		at, known := index[value]
		if !known {
			at = len(groups)
			index[value] = at
			groups = append(groups, group{value: value})
		}
		of[i] = at
		groups[at].have += peers[i].OfJob
	}
	starts := make([]int, len(groups)+1)
	for i := range cands {
		starts[of[cands[i].at]+1]++
	}
	for g := range groups {
		starts[g+1] += starts[g]
		groups[g].members = cands[starts[g]:starts[g]:starts[g+1]]
	}
	for _, c := range slices.Clone(cands) {
		g := &groups[of[c.at]]
		g.members = append(g.members, c)
	}
	return groups
}

func (a *ask) overValue(p *Peer) string {
	if p.Facts != nil {
		if value, ok := a.Over.Value(p.Facts); ok {
			return value
		}
	}
	return noValue
}
