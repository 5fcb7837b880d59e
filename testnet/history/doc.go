// Package history holds what clients were told against what a cluster promises them: a job whose
// submission was acknowledged is there, one id is one job, a cancel is final, a job ends once and
// everywhere the same, and what one peer has shown it does not take back.
//
// Decisions are linearizable, and porcupine finds out whether an order exists that explains all
// answers. Reads need not be: a follower may be behind, but never ahead of the ledger and never,
// within one life, behind itself.
//
// Both tiers of the simulation record the calls of their clients with virtual times and have them
// judged here.
package history
