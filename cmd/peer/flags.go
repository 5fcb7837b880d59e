package main

import (
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate/spell"
)

// durationFlag is a flag that reads durations as job files do: 5s, 1h30m and 2d, and no bare 5.
type durationFlag time.Duration

var _ pflag.Value = (*durationFlag)(nil)

// durationVar registers such a flag; def is its default.
func durationVar(f *pflag.FlagSet, into *time.Duration, name string, def time.Duration, usage string) {
	*into = def
	f.Var((*durationFlag)(into), name, usage)
}

func (d *durationFlag) Set(s string) error {
	v, err := spell.Duration(s)
	if err != nil {
		return err
	}
	*d = durationFlag(v)
	return nil
}

// String implements pflag.Value: nothing for zero, so that help shows no default where there is
// none.
func (d *durationFlag) String() string {
	if *d == 0 {
		return ""
	}
	return short(time.Duration(*d))
}

func (d *durationFlag) Type() string { return "duration" }

// noEmptyFlags refuses a flag with an empty text: most often a shell's variable is not set, and
// another job would run than was meant.
func noEmptyFlags(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Value.Type() == "string" && f.Value.String() == "" && err == nil {
			err = api.Errorf(api.Usage, "--%s is empty: is a variable not set? Leave it out if it is not meant", f.Name)
		}
	})
	return err
}

// wrongFlag says what is wrong with a flag, and which one was probably meant.
func wrongFlag(cmd *cobra.Command, err error) error {
	if words := cmd.Flags().Args(); !cmd.HasParent() && len(words) > 0 { // a flag of a command that is none
		return unknownCommand(cmd, words[0])
	}
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		if unknown.GetSpecifiedName() == "t" {
			return api.Errorf(api.Usage, "%v: tasks have no terminal; -i has a task read this one's input", err)
		}
		if near := nearestFlag(cmd, unknown.GetSpecifiedName()); near != "" {
			return api.Errorf(api.Usage, "%v (did you mean --%s?); see `%s --help`", err, near, cmd.CommandPath())
		}
	}
	return api.Errorf(api.Usage, "%v; see `%s --help`", err, cmd.CommandPath())
}

// nearestFlag is the flag of a command that a word is a few slips of the finger away from, "" if
// none is.
func nearestFlag(cmd *cobra.Command, word string) string {
	if len(word) < 2 {
		return ""
	}
	if here := flagHere[word]; here != "" && cmd.Flag(here) != nil {
		return here
	}
	var names []string
	add := func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	}
	cmd.Flags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	near := spell.Nearest(word, names)
	if near == strings.ToLower(word) {
		return ""
	}
	return near
}
