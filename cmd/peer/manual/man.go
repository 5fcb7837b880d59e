package manual

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// ManName is the name of a command's page in section 1: peer-trust-add.
func ManName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// Man is the man page of a command, in section 1, of a program of this version.
func Man(cmd *cobra.Command, version string) string {
	var p roff
	name := ManName(cmd)
	p.line(`.TH "%s" "1" "" "covey %s" "Covey"`, strings.ToUpper(name), version)
	p.line(".nh\n.ad l")
	p.line(`.SH NAME`)
	p.line(`%s \- %s`, escape(name), escape(cmd.Short))
	p.line(`.SH SYNOPSIS`)
	p.line(`\fB%s\fR`, escape(cmd.UseLine()))
	p.line(`.SH DESCRIPTION`)
	p.blocks(long(cmd))
	if subs := subcommands(cmd); len(subs) > 0 {
		p.line(`.SH COMMANDS`)
		for _, sub := range subs {
			p.item(sub.Name(), sub.Short)
		}
	}
	p.options("OPTIONS", options(cmd.NonInheritedFlags()))
	p.options("OPTIONS OF EVERY COMMAND", options(cmd.InheritedFlags()))
	if cmd.Example != "" {
		p.line(`.SH EXAMPLES`)
		p.blocks(cmd.Example)
	}
	p.line(`.SH SEE ALSO`)
	p.line("%s", strings.Join(also(cmd), ",\n"))
	return p.String()
}

// also are the pages next to a command's.
func also(cmd *cobra.Command) (refs []string) {
	if cmd.HasParent() {
		refs = append(refs, ref(cmd.Parent()))
	}
	if cmd.Name() != "completion" { // whose own have no pages
		for _, sub := range subcommands(cmd) {
			refs = append(refs, ref(sub))
		}
	}
	return refs
}

func ref(cmd *cobra.Command) string { return `\fB` + escape(ManName(cmd)) + `\fR(1)` }

// roff is a page that grows.
type roff struct{ strings.Builder }

func (p *roff) line(format string, args ...any) { fmt.Fprintf(&p.Builder, format+"\n", args...) }

func (p *roff) blocks(text string) {
	for i, b := range blocks(text) {
		if i > 0 {
			p.line(".PP")
		}
		if !b.verbatim {
			p.line("%s", escape(b.text))
			continue
		}
		p.line(".nf")
		p.line("%s", escape(b.text))
		p.line(".fi")
	}
}

func (p *roff) options(title string, all []option) {
	if len(all) == 0 {
		return
	}
	p.line(".SH %s", title)
	for _, o := range all {
		p.item(o.words, o.usage)
	}
}

func (p *roff) item(words, text string) {
	p.line(".TP\n\\fB%s\\fR\n%s", escape(words), escape(text))
}

// escape is text as roff prints it: a line's first period or quote is no request, hyphens can be
// copied, and neither backslashes nor quotes of the shell change.
func escape(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "`", `\(ga`, "'", `\(aq`, "^", `\(ha`, "~", `\(ti`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}
