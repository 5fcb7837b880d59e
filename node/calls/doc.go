// Package calls has what peers say to each other when something is asked of the coordinator: types with numbered fields, and what follows
// from them alone. It knows no connections, and decides nothing.
package calls
