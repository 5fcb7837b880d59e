// Package store keeps blobs on this peer's disk, under their names (package piece): whole ones,
// and those of which only some pieces are here yet.
//
// What is promised:
//
//   - What is called whole is whole: a blob gets its name once all its bytes are right and synced.
//     A process that is killed, or a machine that loses its power, at any moment leaves it whole or
//     not there. Done says that it is kept once its name is synced too.
//   - What is read is right, or an error. A piece that is not what it was (bit rot, a file that
//     somebody changed) is found when it is read: the blob is a partial one without it from then
//     on, so that only that piece has to be fetched again.
//   - What somebody leases, or a pin names, stays. Leases are taken, and blobs are removed, under
//     one lock.
//   - Of the rest, what was used longest ago goes when it is more than the quota, or when the disk
//     gets low (shelf, a pure core). What would not fit even then is refused before it is begun,
//     with how much room there is (NoRoom). What this peer's owner put or gets is not held to the
//     quota, only to the disk; it takes the place of what is kept for others.
//   - Fetching goes on where it was: at most the pieces that were under way come again. What a map
//     claims is checked when the fetch is taken up, so that no order of writes matters.
//
// In the folder, where HASH is the name in hex and xx its first two digits:
//
//	xx/HASH            a whole blob, 0444
//	xx/HASH.proof      its proof, if it has more than one piece; made anew if it is lost
//	partial/HASH       as long as the blob, its room allocated
//	partial/HASH.proof what it will be checked with; without it the rest is of no use
//	partial/HASH.map   which pieces are here
//	pins/NAME          what is to stay, until when, and why
//	tmp/               what is being added or removed; emptied at the start
//
// Anything else in there is left alone and counted (Usage). The store is for one process at a time,
// which whoever locks the data folder sees to. What is under way when the machine stops costs no
// more than its own bytes.
package store
