// Package disk turns a folder into the entries of a tree, and a tree into a folder.
//
// Both go through os.Root: whatever names and links are found or given, nothing outside the folder
// is read or written. A scan follows no link and waits for nobody: what is neither file, folder nor
// link is left out by name.
//
// What is written takes two readings of the tree. The first looks at what is there and refuses
// before anything changes: files that differ are only replaced where that is asked for, and a
// folder never. Files that are equal are left, so that a writing that was broken off goes on when
// it is done again. The second writes: a file under another name until its content is found to be
// the right one, links last.
package disk
