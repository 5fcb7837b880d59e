// Package shell puts a value into a line for a POSIX shell without the shell ever reading that
// value as part of its language.
//
// The value stays in an environment variable; what is put into the line is a reference to it,
// quoted as its place needs: the result of an expansion is never parsed again. The package follows
// quotes, substitutions and comments as far as it must to know that place. Where it cannot know, or
// where a reference would not be expanded, it refuses.
//
// It does not follow what a line hands to another interpreter (eval, sh -c, ssh): quoting for that
// one is up to the author of the line.
package shell
