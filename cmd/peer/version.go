package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// release is set by the linker (-ldflags "-X main.release=v1.2.3").
var release = "0.2.0-dev"

// version is the release, and the commit it was built from if the toolchain recorded it.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 7 {
				return release + "+" + s.Value[:7]
			}
		}
	}
	return release
}

// versionLine says it for people, with what it was built by and for.
func versionLine() string {
	return fmt.Sprintf("peer %s (%s, %s/%s)", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func versionCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Version of this program",
		Args:  exactly(0, ""),
		RunE: func(*cobra.Command, []string) error {
			v := map[string]string{"version": version(), "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH}
			return emit(c, nil, v, []map[string]string{v}, func(w io.Writer) { fmt.Fprintln(w, versionLine()) })
		},
	}
}
