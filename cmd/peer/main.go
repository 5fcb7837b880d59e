// Command peer makes this machine a peer of a Covey cluster, and talks to it.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // schedules name time zones, and not every system has their table
)

func main() {
	os.Exit(mainCode())
}

// mainCode runs the command line of this process and returns its exit code: what tests call in
// place of main.
func mainCode() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return Main(ctx, os.Args[1:], Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
}

// Streams are what a command reads and writes: results on Out, messages on Err.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Main runs one command line and returns its exit code.
func Main(ctx context.Context, args []string, s Streams) int {
	out := &results{w: s.Out}
	s.Out = out
	c := &cli{Streams: s}
	root := c.root()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && c.output == tableFormat {
		c.output = typedFormat(args) // what follows a flag that cannot be read has not been
	}
	return c.complete(cmd, c.exit(cmd, err), out.failed())
}
