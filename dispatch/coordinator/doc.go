// Package coordinator decides which peer runs which task: a pure core, and the loop that drives it while this peer coordinates.
package coordinator
