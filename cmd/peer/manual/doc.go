// Package manual writes what a command line says of itself as pages: man pages and one in Markdown.
// All of it is made of the commands' own help, so that it cannot say anything else.
//
// It reads no file and writes none. cmd/peer calls it for docs/commands.md and for the hidden
// command that writes what packages carry.
package manual
