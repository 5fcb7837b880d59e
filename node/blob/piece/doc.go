// Package piece names blobs by what is in them, and tells whether a part of one is right without
// the rest.
//
// A blob's name is its BLAKE3, as b3sum prints it. BLAKE3 is a tree: below the root, every stretch
// of 1 MiB has a value of its own. These values, 32 bytes for each MiB, are the blob's proof. They
// join to the root, so that whoever knows the root can check a proof from anybody, and with the
// proof every piece of 1 MiB from anybody, in any order. A blob of one piece needs no proof: the
// root is its value.
//
// A proof that joins says what the pieces are, but not yet how many bytes there are: parents of the
// tree can pass for pieces of a smaller blob. No piece fits such a proof. A last piece that fits
// proves the size, since each piece's place is in its value; so it is the one to ask for first.
package piece
