// Package noop runs tasks that do nothing: each takes its time, and ends. It is what a job of kind
// noop runs on, without a process or a folder. After a restart of the peer, Adopt waits for what is
// left of their time.
package noop
