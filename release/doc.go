// Command release makes everything that a version is handed out as, in one folder: archives for six
// systems, deb and rpm, an OCI image layout, software bills of materials, the Go module as a proxy
// serves it, an install script and SHA256SUMS. release/make runs it:
//
//	release/make --version 0.2.0 --out dist
//
// The same tree, Go toolchain and SOURCE_DATE_EPOCH (by default the time of the last commit) give
// the same bytes, wherever and whenever it runs. Nothing is published.
//
// A version is cut by its number in cmd/peer/version.go, README.md and clients/python, and its
// heading in CHANGELOG.md (a test compares them), in one commit, which is tagged v0.2.0.
//
// It is a module of its own, so that what makes packages is no dependency of what is packaged.
package main
