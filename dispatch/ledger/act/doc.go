// Package act is how people ask for decisions in their own name: signed, for one cluster, for a
// while, and once. It knows neither commands nor roles: dispatch/ledger says what is signed and who
// may.
//
//	a := act.Act{By: self, At: now, Until: now + act.Lasts, N: act.Number()}
//	a, err := a.Signed(cluster, command, sign)
//	err = a.Check(cluster, command, stamp, verify)     // on every peer, when the command is applied
//	spent.Has(a)                                       // it counted before
//	spent.Add(a, stamp)                                // it counts now
//
// Of one signer at most mostSpent numbers are remembered, each until the act that has it is good
// for nothing any more. Above that the acts that end soonest are forgotten, and all that end as
// soon are refused from then on.
package act
