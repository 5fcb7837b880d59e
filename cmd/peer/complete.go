package main

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
)

// completionLimit is how long a shell waits for words: a peer that does not answer offers none,
// without a word.
const completionLimit = 1500 * time.Millisecond

// completionJobs is how many jobs are offered: the newest.
const completionJobs = 50

// completed says which commands take jobs and which take peers.
var completed = map[string]func(*cli, context.Context) []cobra.Completion{
	"job": jobWords, "tasks": jobWords, "explain": jobWords, "logs": jobWords, "wait": jobWords, "cancel": jobWords, "retry": jobWords, "scale": jobWords,
	"rollout": jobWords, "rollback": jobWords, "rebalance": jobWords, "trigger": jobWords, "renew": jobWords, "pin": jobWords, "unpin": jobWords, "trace": jobWords,
	"get": getWords, "unput": putWords,
	"drain": peerWords, "pause": peerWords, "activate": peerWords, "label": peerWords, "roles": peerWords, "remove": peerWords,
}

// valuesOf are flags with a few words for values.
var valuesOf = map[string][]cobra.Completion{
	"output": {"table", "json", "jsonl"}, "stream": {"stdout", "stderr"}, "strategy": {"spread", "binpack", "random"},
	"restart": {"none", "on-failure", "any"}, "state": {"held", "pending", "running", "complete", "failed", "cancelled"},
}

// offerWords has the shell complete jobs, peers and values; files only where a file is meant.
func offerWords(c *cli, root *cobra.Command) {
	for _, cmd := range root.Commands() {
		words := completed[cmd.Name()]
		switch {
		case words != nil:
			cmd.ValidArgsFunction = completer(c, words)
		case cmd.Name() != "run" && cmd.Name() != "submit" && cmd.Name() != "put" && cmd.Name() != "help" && cmd.ValidArgsFunction == nil && !cmd.HasSubCommands():
			cmd.ValidArgsFunction = cobra.NoFileCompletions
		}
		for name, values := range valuesOf {
			if cmd.Flags().Lookup(name) != nil {
				_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
			}
		}
		if cmd.Flags().Lookup("after") != nil {
			_ = cmd.RegisterFlagCompletionFunc("after", completer(c, jobWords))
		}
	}
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(valuesOf["output"], cobra.ShellCompDirectiveNoFileComp))
}

// completer asks this machine's peer for words.
func completer(c *cli, words func(*cli, context.Context) []cobra.Completion) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if fromEnvironment(cmd) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(context.Background(), completionLimit)
		defer cancel()
		out := slices.DeleteFunc(words(c, ctx), func(w cobra.Completion) bool { return slices.Contains(args, w) })
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

func jobWords(c *cli, ctx context.Context) []cobra.Completion {
	js, err := c.client().Jobs(ctx)
	if err != nil {
		return nil
	}
	out := []cobra.Completion{"last"}
	for i, j := range js.Jobs {
		if i >= completionJobs {
			break
		}
		out = append(out, cobra.CompletionWithDesc(j.ID, j.Name+" "+jobState(j.State)))
		if j.Name != "" && !slices.Contains(out, j.Name) {
			out = append(out, j.Name)
		}
	}
	return out
}

func peerWords(c *cli, ctx context.Context) []cobra.Completion {
	ps, err := c.client().Peers(ctx)
	if err != nil {
		return nil
	}
	var out []cobra.Completion
	for _, p := range ps.Peers {
		word := p.Name
		if word == "" || sameName(ps.Peers, p) {
			word = p.ID
		}
		out = append(out, cobra.CompletionWithDesc(word, p.Standing))
	}
	return out
}

// getWords are jobs, and what was put here.
func getWords(c *cli, ctx context.Context) []cobra.Completion {
	return append(jobWords(c, ctx), putWords(c, ctx)...)
}

func putWords(c *cli, ctx context.Context) []cobra.Completion {
	u, err := c.client().StoreUsage(ctx)
	if err != nil {
		return nil
	}
	var out []cobra.Completion
	for _, p := range u.Puts {
		out = append(out, cobra.CompletionWithDesc(p.Ref.String(), p.Name))
	}
	return out
}
