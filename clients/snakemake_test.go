//go:build unix && long

package clients_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// workflow has a rule for each sample, and one that joins what those made; one may fail.
const workflow = `
rule all:
    input: "total.csv"

rule count:
    input: "data/{s}.txt"
    output: "counts/{s}.csv"
    log: "logs/{s}.log"
    shell: "test {wildcards.s} != bad && ls > {log} && echo {wildcards.s},$(wc -l < {input}) > {output}"

rule total:
    input: expand("counts/{s}.csv", s=["1", "2"])
    output: "total.csv"
    run:
        with open(output[0], "w") as out:
            for name in input:
                out.write(open(name).read())
`

func TestSnakemakeRunsItsRulesOnPeersThatShareNoDiskWithIt(t *testing.T) {
	if out, err := exec.Command("snakemake", "--version").Output(); err != nil || !strings.HasPrefix(string(out), "7.") {
		t.Skipf("no Snakemake 7 is installed (Debian 12: snakemake): %v %s", err, out)
	}
	exe, net := peers(t)
	profile, err := filepath.Abs("snakemake")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"Snakefile": workflow, "data/1.txt": "a\n", "data/2.txt": "a\nb\n", "data/bad.txt": ""} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	snakemake := func(args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		c := exec.CommandContext(ctx, "snakemake", append([]string{"--profile", filepath.Join(profile, "profile")}, args...)...)
		c.Dir, c.WaitDelay = dir, 10*time.Second
		c.Env = append(os.Environ(), "PATH="+profile+":"+os.Getenv("PATH"), "COVEY_PEER="+exe, "PEER_DATA="+net.Data(1), "HOME="+dir)
		out, err := c.CombinedOutput()
		return string(out), err
	}
	if out, err := snakemake(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got, err := os.ReadFile(filepath.Join(dir, "total.csv"))
	if err != nil || string(got) != "1,1\n2,2\n" {
		t.Errorf("total.csv: %q, %v", got, err)
	}
	seen, err := os.ReadFile(filepath.Join(dir, "logs/1.log"))
	if err != nil || strings.Contains(string(seen), "total") {
		t.Errorf("the rule saw %q, %v", seen, err)
	}
	if out, err := snakemake("counts/bad.csv"); err == nil || !strings.Contains(out, "Error in rule count") {
		t.Errorf("a rule that fails: %v\n%s", err, out)
	}
}
