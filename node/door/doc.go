// Package door lets browsers and other programs ask a peer over TCP: the API of package api, and
// the page of package web.
//
// It is shut unless `peer up --api` says where it is to be open, or somebody typed `peer web`: then
// it is open on this machine's own address while a browser's token lives. Whoever asks shows a
// token with a scope; secrets are on disk as hashes. There are no cookies, so that no other page
// and no other port can ask in a browser's name, and what is asked under another name than the
// door's own is refused, so that no name server can lead a browser here. Beyond this machine it
// speaks TLS or not at all.
//
// Bounds: 64 connections that have shown no token, for 30 s each, of which the newest takes the
// place of the oldest; 64 of each token, 1024 in all; 16 KiB of header in 5 s; without a token no
// byte of a body is read; 256 tokens.
package door
