// Package testnet runs many peers on one machine and knows ways to hurt them: real processes, real
// sockets on loopback, real kills. It serves people (`peer testnet`), the demonstration, the soak,
// and the measurements of `peer bench`.
//
// Whole lives in virtual time, without processes, are lived by testnet/sim and testnet/stack; their
// tests are here.
package testnet
