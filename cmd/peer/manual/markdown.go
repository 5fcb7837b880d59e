package manual

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Markdown is one page of all commands below root, the flags that all have in front.
func Markdown(root *cobra.Command) string {
	var b strings.Builder
	text := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	text("# Commands\n\nMade from the program's own help, which `%s COMMAND --help` prints, too; do not edit it.\n\n", root.Name())
	all := Commands(root)
	for _, cmd := range all[1:] {
		text("- [%s](#%s): %s\n", cmd.CommandPath(), strings.ReplaceAll(cmd.CommandPath(), " ", "-"), cmd.Short)
	}
	text("\n## Flags of every command\n\n")
	table(&b, options(root.PersistentFlags()))
	for _, cmd := range all[1:] {
		text("\n## %s\n\n```\n%s\n```\n\n", cmd.CommandPath(), cmd.UseLine())
		for _, block := range blocks(long(cmd)) {
			if block.verbatim {
				text("```\n%s\n```\n\n", block.text)
			} else {
				text("%s\n\n", prose(block.text))
			}
		}
		if cmd.Example != "" {
			text("```sh\n%s\n```\n\n", cmd.Example)
		}
		table(&b, options(cmd.NonInheritedFlags()))
	}
	return strings.TrimRight(strings.ReplaceAll(b.String(), "\n\n\n", "\n\n"), "\n") + "\n"
}

func table(b *strings.Builder, all []option) {
	if len(all) == 0 {
		return
	}
	fmt.Fprint(b, "| flag | |\n|---|---|\n")
	for _, o := range all {
		fmt.Fprintf(b, "| `%s` | %s |\n", strings.ReplaceAll(o.words, "|", `\|`), strings.ReplaceAll(prose(o.usage), "|", `\|`))
	}
}

// prose is text in which Markdown sees no marks but code between backquotes.
func prose(text string) string {
	parts := strings.Split(text, "`")
	for i := 0; i < len(parts); i += 2 { // the others are code
		parts[i] = strings.NewReplacer(`\`, `\\`, "*", `\*`, "_", `\_`, "<", `\<`, "[", `\[`).Replace(parts[i])
	}
	return strings.Join(parts, "`")
}
