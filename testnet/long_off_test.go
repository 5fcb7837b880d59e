//go:build !long

package testnet_test

// long: tests that take minutes leave themselves out, or do less; with -tags long they do not.
const long = false
