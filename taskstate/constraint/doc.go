// Package constraint is the small language in which a job says which peers may run it: `key op
// value`, as in
//
//	peer.os == linux
//	peer.label.zone in (east, "far west")
//	peer.memory >= 8GiB
//	peer.addr != 10.0.0.0/8
//	peer.name =~ ^gpu-[0-9]+$
//	peer.offer.gpus >= 2
//
// Keys are read in any case, the names of labels and offers exactly. A value is bare or in quotes,
// "…" or '…', inside which \\ \" \' \n and \t are escapes. Operators are == != >= <= > < =~ in; one
// that makes no sense for a key is refused.
//
//   - id, name, os, arch and labels are text: == != and in compare it literally, case and all. =~
//     finds a regular expression (RE2) anywhere in it: write ^…$ for the whole. A label that is not
//     there equals nothing, matches nothing and differs from everything.
//   - cpus, memory and offers are numbers. What is not offered is 0.
//   - >= <= > < on a label compare decimal numbers; a label that is none, or not there, is neither
//     more nor less than anything.
//   - addr is every address of the peer: == and in hold if one of them is the address or lies in
//     the network, != if none does.
//
// What cannot be read is an error with its column and an example, never a constraint that lets
// everything pass. A constraint is immutable and may be used by many goroutines.
//
// The package does not know jobs, peers or placement: it is asked with Facts.
package constraint
