// Package doctor judges facts about a peer: what is well, what is not and what to type, and what is
// not known. It is pure; package clinic finds the facts out.
//
//	findings := doctor.Judge(doctor.Facts{TCP: doctor.Is(doctor.Reach{…}), UDP: doctor.NotTried[doctor.Reach]("no other peer is here")})
//
// A fact is known, or it is said why it is not: the zero Facts say of everything that it was not
// tried. What the limits are and why is in docs/doctor.md.
package doctor
