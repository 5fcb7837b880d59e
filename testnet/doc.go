// Package testnet runs many peers on one machine and knows ways to hurt them: real processes, real sockets on loopback, real
// kills. It serves people (`peer testnet`), the demonstration, and the measurements of `peer bench`.
package testnet
