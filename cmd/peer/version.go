package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// release is set by the linker in what release/make builds (-ldflags "-X main.release=1.2.3").
var release string

// source is the version that these sources are of.
const source = "0.3.0-dev"

// version is the release; of a program that was built in some other way what its build says.
func version() string {
	if release != "" {
		return release
	}
	info, _ := debug.ReadBuildInfo()
	return built(info)
}

// built is a program's version by its build: of `go install …@v1.2.3` that one, of a checkout the
// tree's with the commit.
func built(info *debug.BuildInfo) string {
	if info == nil {
		return source
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 7 {
			return source + "+" + s.Value[:7]
		}
	}
	if v, ok := strings.CutPrefix(info.Main.Version, "v"); ok {
		return v
	}
	return source
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
