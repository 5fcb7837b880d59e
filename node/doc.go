// Package node makes one peer out of the parts and gives it a life: it opens the data folder, founds, joins or resumes a cluster,
// joins the network, membership, ledger, dispatch and runner to each other, and serves the local API.
//
// The wiring, top down: the API asks the node; questions are answered from this peer's own replica of the ledger and its table of
// statuses; what must be decided becomes a call that travels to the coordinator. Statuses arrive as signed envelopes, by topic, by
// session and by digest, and all three ways lead through one door (statuses.accept).
package node
