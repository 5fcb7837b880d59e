// Package session is what a worker and the coordinator say to each other: the frames of a session's
// stream, and what a peer may offer.
package session
