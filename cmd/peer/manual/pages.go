package manual

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Commands are all commands below root that people are shown, root first, each before its own
// subcommands. Those of the shell completion are left out: cobra describes them.
func Commands(root *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{root}
	for _, sub := range root.Commands() {
		if sub.Hidden || sub.Name() == "help" {
			continue
		}
		if sub.Name() == "completion" {
			all = append(all, sub)
			continue
		}
		all = append(all, Commands(sub)...)
	}
	return all
}

// option is one flag, as it is shown.
type option struct{ words, usage string }

// options are the flags of a set that people are shown, in the order of help.
func options(flags *pflag.FlagSet) (all []option) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		what, usage := pflag.UnquoteUsage(f)
		words := "--" + f.Name
		if f.Shorthand != "" {
			words = "-" + f.Shorthand + ", " + words
		}
		if what != "" {
			words += " " + what
		}
		if d := f.DefValue; !filepath.IsAbs(d) && !slices.Contains([]string{"", "false", "[]", "0"}, d) { // a folder is another one for each user
			usage += " (default " + d + ")"
		}
		all = append(all, option{words, strings.Join(strings.Fields(usage), " ")})
	})
	return all
}

// long is what a command says of itself at length.
func long(cmd *cobra.Command) string {
	if cmd.Long != "" {
		return cmd.Long
	}
	return cmd.Short + "."
}

// subcommands are those of a command that people are shown.
func subcommands(cmd *cobra.Command) (all []*cobra.Command) {
	for _, sub := range cmd.Commands() {
		if !sub.Hidden && sub.Name() != "help" {
			all = append(all, sub)
		}
	}
	return all
}

// block is a paragraph, or lines that are shown as they are.
type block struct {
	text     string
	verbatim bool
}

// blocks splits help into paragraphs; those with a line that begins with two spaces are verbatim
// from there on.
func blocks(text string) (all []block) {
	for _, part := range strings.Split(strings.Trim(text, "\n"), "\n\n") {
		var plain []string
		lines := strings.Split(part, "\n")
		for len(lines) > 0 && !strings.HasPrefix(lines[0], "  ") {
			plain, lines = append(plain, lines[0]), lines[1:]
		}
		if len(plain) > 0 {
			all = append(all, block{text: strings.Join(plain, "\n")})
		}
		if len(lines) > 0 {
			all = append(all, block{text: strings.Join(lines, "\n"), verbatim: true})
		}
	}
	return all
}
