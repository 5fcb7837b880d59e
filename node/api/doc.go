// Package api is the local HTTP API of a peer: its types, defined once here, and its server over a
// Backend. Package client asks it.
//
// The API listens on a unix socket in the peer's data folder, which only its owner may enter. Every
// route says what it asks of its caller (caller.go): from inside a task little is answered, and
// administration, for which a caller shows the token in the data folder, never is. Who calls is
// found out by whoever serves (WithCaller).
//
// Every answer is JSON; lists carry when they were true (as_of). Streams are JSON lines. Errors are
// {"error": {"code", "message"}} with a code that the command line turns into its exit code.
package api
