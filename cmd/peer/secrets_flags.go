package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/jobfile"
)

// secretsFlags say which secrets every task finds in $COVEY_SECRETS.
type secretsFlags struct{ secret []string }

func (f *secretsFlags) register(fl *pflag.FlagSet) {
	fl.StringArrayVar(&f.secret, "secret", nil, "give the tasks of this job, and nobody else, what is in a file, as `NAME=@FILE`: they find it in\nthe file $COVEY_SECRETS/NAME (repeatable)")
}

// values reads the secrets of a job: those that its file names, and those of the flags.
func (f *secretsFlags) values(local []jobfile.LocalSecret) (map[string][]byte, error) {
	for _, text := range f.secret {
		name, file, ok := strings.Cut(text, "=")
		file, at := strings.CutPrefix(file, "@")
		switch {
		case !ok || !at: // not what was typed: it may be the secret
			return nil, api.Errorf(api.Usage, "--secret takes NAME=@FILE, never a value, which everybody on this machine could read in `ps` and in your shell's history: put it into a file, and name that")
		case !jobfile.SecretName(name):
			return nil, api.Errorf(api.Usage, "--secret %s=@…: a name is letters, digits and _, not beginning with a digit, at most %d of them", printable(name), taskstate.MaxSecretName)
		case file == "":
			return nil, api.Errorf(api.Usage, "--secret %s=@: say which file, as in --secret %s=@pw.txt", name, name)
		}
		local = append(local, jobfile.LocalSecret{Name: name, Path: file, At: "--secret " + name})
	}
	if len(local) == 0 {
		return nil, nil
	}
	values := map[string][]byte{}
	total := 0
	for _, l := range local {
		if _, twice := values[l.Name]; twice {
			return nil, api.Errorf(api.Usage, "%s: the secret %s is given twice; keep one", l.At, l.Name)
		}
		b, err := readFile(l.Path, taskstate.MaxSecretBytes)
		switch {
		case os.IsNotExist(err):
			return nil, api.Errorf(api.Usage, "%s: there is no %s; it is to hold the secret %s", l.At, printable(l.Path), l.Name)
		case err != nil:
			return nil, api.Errorf(api.Usage, "%s: %v", l.At, err)
		case len(b) == 0:
			return nil, api.Errorf(api.Usage, "%s: %s is empty", l.At, printable(l.Path))
		}
		if total += len(b); total > taskstate.MaxSecretBytes {
			return nil, api.Errorf(api.Usage, "%s: secrets have at most %s together; encrypt %s with a key of its own, bring it with --in, and give only the key as a secret", l.At, bytesText(taskstate.MaxSecretBytes), printable(l.Path))
		}
		values[l.Name] = b
	}
	return values, nil
}

// warnPublic says which variables of a job look as if they should have been secrets.
func warnPublic(w io.Writer, job *taskstate.Job) {
	names := jobfile.PublicSecrets(job)
	if len(names) == 0 {
		return
	}
	which, it := "the variable "+names[0]+" is", "it is"
	if len(names) > 1 {
		which, it = "the variables "+strings.Join(names, ", ")+" are", "they are"
	}
	fmt.Fprintf(w, "warning: %s public: peers that vote, may read, or run a task of a job see its environment; if %s secret, use secrets: in the job file or --secret %s=@FILE\n", which, it, names[0])
}
