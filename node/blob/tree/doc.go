// Package tree is what a folder is, apart from any disk: a sorted list of entries, written as a
// blob. The name of that blob names the folder.
//
// An entry has a path, and is a file with its executable bit, size and name of content, a folder,
// or a symbolic link. There is no owner, time or other permission: equal content has equal bytes
// here, so that a folder has the same name whoever scans it. Entries are in the order of a walk
// that sorts names by their bytes; every folder has an entry and comes before what is in it. The
// list begins with its version and ends with totals, without which it is cut off.
//
// What comes from others is read as a stream, with the memory of one entry and its folders, and
// refused where it would mean anything else than files below one folder: the Reader says which path
// and why. The Writer refuses the same, so that what was written can be read.
//
// A link may lead only to what is in the tree. Its target goes up first, by no more folders than
// there are, and then only down: what the tree holds cannot move that to elsewhere.
package tree
