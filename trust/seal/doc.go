// Package seal closes values so that only certain peers can open them: a job's secrets on their way
// from whoever gave them to the tasks that read them.
//
//	key, err := seal.Load(path)                  // this peer's, made at its first start
//	told := key.Recipient()                      // what others seal to
//	sealed, digest, err := seal.Seal(bundle, recipients)
//	bundle, digest, err := key.Open(sealed)      // ErrNotForMe: it was sealed to others only
//
// What is sealed is a Bundle: the values, and what they are for. Anybody can put sealed bytes that
// are not his into a job of his own, so whoever opens a bundle compares cluster, job and giver with
// those of the job that it came with. The digest is that of the plain bundle, but for who gave it.
// It tells whether two sealed ones say the same, and nothing of what they say, since a bundle
// begins with random bytes.
//
// The bytes are an age file (age-encryption.org/v1) with one X25519 stanza per recipient. A key is
// never used for anything else. The package does not know jobs, peers or where keys come from.
package seal
