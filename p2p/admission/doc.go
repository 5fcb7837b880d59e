// Package admission decides who may come in: the roster of admitted peers, whose entries are signed by the coordinator that wrote
// them, the tickets that invite, and the two protocols strangers may speak – join and roster.
//
// It knows nothing of ledgers or tasks: who really admits is a port (Admitter).
package admission
