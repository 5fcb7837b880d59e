package main

import (
	"context"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/internal/atomicfile"
	"github.com/coveyproject/covey/node/api"
)

// webFile is the page that leads a browser in. Its link is good once and for a minute, so that it
// may stay.
const webFile = "web.html"

func webCommand(c *cli) *cobra.Command {
	var scope string
	var expires time.Duration
	var show bool
	cmd := &cobra.Command{
		Use:   "web",
		Short: "Look at the cluster in a browser",
		Long: `Look at the cluster in a browser: peers, jobs, where and when tasks ran, what they print, what
happened; and start, retry and cancel jobs there. The peer serves the page on this machine only, on
port 26840 or, if that is taken, another one, as long as a browser's token lives.

A file that only you can read leads the browser in; its link is good once, for a minute. Where no
browser can be opened the file's name is printed. From another machine: ssh -L
26840:127.0.0.1:26840 HOST, then peer web --print there, and open what it prints here.`,
		Example: "  peer web\n  peer web --scope read --expires 30d    a screen on the wall\n  ssh host peer web --print",
		Args:    exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := c.client().Tokens().OpenWeb(cmd.Context(), api.TokenRequest{Scope: api.Scope(scope), Expires: expires.Seconds()})
			if err != nil {
				return err
			}
			link := l.URL + "#code=" + l.Code
			if show {
				fmt.Fprintln(c.Out, link)
				return nil
			}
			path := filepath.Join(c.data, webFile)
			page := `<!doctype html><meta charset="utf-8"><title>covey</title><meta http-equiv="refresh" content="0;url=` + html.EscapeString(link) + `">` + "\n"
			if err := atomicfile.Write(path, []byte(page)); err != nil {
				return api.Errorf(api.Failed, "cannot write %s: %v; `peer web --print` prints the link instead", path, err)
			}
			if browse(cmd.Context(), path) {
				fmt.Fprintln(c.Err, "opened "+l.URL)
				return nil
			}
			fmt.Fprintln(c.Out, path)
			fmt.Fprintln(c.Err, "open this file in a browser on this machine within a minute; or see `peer web --print`")
			return nil
		},
	}
	cmd.Flags().StringVar(&scope, "scope", "admin", "`WHAT` the page may do: read, submit or admin")
	durationVar(cmd.Flags(), &expires, "expires", 12*time.Hour, "how long the browser stays let in, as in 12h")
	cmd.Flags().BoolVar(&show, "print", false, "print the link instead of opening a browser; whoever reads it first is let in")
	return cmd
}

// browse has the desktop open a file, and tells whether there is one that does.
func browse(ctx context.Context, path string) bool {
	var words []string
	switch runtime.GOOS {
	case "darwin":
		words = []string{"open", path}
	case "windows":
		words = []string{"rundll32", "url.dll,FileProtocolHandler", path}
	default:
		if os.Getenv("DISPLAY")+os.Getenv("WAYLAND_DISPLAY") == "" {
			return false
		}
		words = []string{"xdg-open", path}
	}
	return exec.CommandContext(ctx, words[0], words[1:]...).Run() == nil
}
