// Package replicas decides which slots a job that lasts should have: as many as wanted for a
// service, one on each peer that fits for a global job. Both are pure functions of the slots there
// are.
//
// It does not place tasks (package placement does) and does not update them (package rollout does).
package replicas
