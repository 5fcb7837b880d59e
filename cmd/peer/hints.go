package main

import (
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/coveyproject/covey/node/api"
)

// hints is where messages go. A command in it, between backquotes, is for pasting: it carries what
// said which peer, or which testnet, is meant.
type hints struct {
	w    io.Writer
	data string // of the words before the command; "" if there is nothing to say
	dir  string // of the words after `peer testnet`
}

// Write implements io.Writer. Each call writes whole lines, or what is no hint.
func (h *hints) Write(b []byte) (int, error) {
	if _, err := io.WriteString(h.w, h.carry(string(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// hint is a command of this program in a sentence.
var hint = regexp.MustCompile("`peer( [^`]+)`")

// carry completes the commands in a text.
func (h *hints) carry(text string) string {
	var b strings.Builder
	done := 0
	for _, at := range hint.FindAllStringIndex(text, -1) {
		b.WriteString(text[done:at[0]])
		b.WriteString(h.complete(text[at[0]:at[1]], text[at[1]:]))
		done = at[1]
	}
	return b.String() + text[done:]
}

// complete completes one command. What asks for help, or is to be typed on another machine, as what
// follows it says, stays as it is.
func (h *hints) complete(found, after string) string {
	words := strings.TrimSuffix(strings.TrimPrefix(found, "`peer"), "`")
	said := func(prefixes ...string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(words, p) })
	}
	switch {
	case strings.HasPrefix(after, " there"), strings.HasPrefix(after, " on "), strings.HasPrefix(after, " at "), said(" help", " up --join"), strings.Contains(words, " --data "), strings.Contains(words, " --help"):
		return found
	case said(" testnet --dir "):
		return found
	case said(" testnet "):
		return "`peer testnet" + h.dir + strings.TrimPrefix(words, " testnet") + "`"
	}
	return "`peer" + h.data + words + "`"
}

// raw is where a stream goes without hints: what tasks write is theirs.
func raw(w io.Writer) io.Writer {
	if h, ok := w.(*hints); ok {
		return h.w
	}
	return w
}

// carryHints has what is said from here on carry the flags that were typed.
func (c *cli) carryHints(cmd *cobra.Command) {
	h := &hints{w: raw(c.Err), data: typed(cmd, "data")}
	if cmd.HasParent() && cmd.Parent().Name() == "testnet" {
		h.dir = typed(cmd, "dir")
	}
	if h.data+h.dir != "" {
		c.Err = h
	}
}

// messagesTo has messages go elsewhere, with the hints it carries.
func (c *cli) messagesTo(w io.Writer) {
	if h, ok := c.Err.(*hints); ok {
		c.Err = &hints{w: w, data: h.data, dir: h.dir}
		return
	}
	c.Err = w
}

// carry completes the commands in a text that is no message.
func (c *cli) carry(text string) string {
	if h, ok := c.Err.(*hints); ok {
		return h.carry(text)
	}
	return text
}

// carryJobs completes the commands in what is said of jobs.
func (c *cli) carryJobs(jobs ...api.Job) {
	for _, j := range jobs {
		for i := range j.Unreachable {
			j.Unreachable[i].Then = c.carry(j.Unreachable[i].Then)
		}
	}
}

// command is a command of this program as one would type it here.
func (c *cli) command(words string) string {
	if h, ok := c.Err.(*hints); ok {
		return "peer" + h.data + " " + words
	}
	return "peer " + words
}

// typed is a flag as it was typed, with a space before it; "" if it was not.
func typed(cmd *cobra.Command, name string) string {
	f := cmd.Flags().Lookup(name)
	if f == nil || !wasTyped(f) {
		return ""
	}
	return " --" + name + " " + shellWord(f.Value.String())
}

// wasTyped tells whether a flag was given on the command line.
func wasTyped(f *pflag.Flag) bool {
	return f.Changed && f.Annotations[fromEnv] == nil && f.Annotations[fromFile] == nil
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

func shellWord(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// withoutFormat are the commands that list nothing, so that there is no format to ask for.
var withoutFormat = map[string]string{
	"peer down": "", "peer leave": "", "peer remove": "", "peer wait": "", "peer completion": "", "peer help": "",
	"peer completion bash": "", "peer completion fish": "", "peer completion powershell": "", "peer completion zsh": "",
	"peer logs":    "its output is the tasks' own",
	"peer watch":   "its output is JSON lines anyway",
	"peer metrics": "its output is the text format of Prometheus",
	"peer top":     "its output is a screen",
	"peer trace":   "its output is a trace in JSON anyway",

	"peer service": "", "peer service install": "", "peer service uninstall": "", "peer service status": "",

	"peer testnet": "", "peer testnet up": "", "peer testnet kill": "", "peer testnet restart": "",
	"peer testnet partition": "", "peer testnet heal": "", "peer testnet down": "", "peer testnet demo": "",
}

// tableFormat is the format when none is asked for.
const tableFormat = "table"

// checkOutputFormat refuses a format where it would go unheard. One that comes from the environment
// is for the other commands.
func (c *cli) checkOutputFormat(cmd *cobra.Command) error {
	switch c.output {
	case tableFormat:
		return nil
	case "json", "jsonl":
	default:
		return api.Errorf(api.Usage, "--output %q: expected table, json or jsonl", c.output)
	}
	f := cmd.Flags().Lookup("output")
	c.outputFromEnv = f != nil && !wasTyped(f)
	why, without := withoutFormat[cmd.CommandPath()]
	switch {
	case !without || cmd.Name() == "watch" && c.output == "jsonl":
		return nil
	case c.outputFromEnv:
		c.output = tableFormat
		return nil
	}
	if why != "" {
		why = ": " + why
	}
	return api.Errorf(api.Usage, "%s lists nothing, so it takes no -o%s", cmd.CommandPath(), why)
}

// typedFormat is the format that words ask for, also if not all of them can be read.
func typedFormat(words []string) string {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	fs.ParseErrorsAllowlist.UnknownFlags = true
	fs.Usage = func() {}
	form := fs.StringP("output", "o", tableFormat, "")
	_ = fs.Parse(words)
	return *form
}
