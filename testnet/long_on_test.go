//go:build long

package testnet_test

// long: tests that take minutes run, too. `go test -tags long ./testnet`
const long = true
