package jobfile

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/trust/seal"

	"github.com/goccy/go-yaml/ast"
)

// LocalSecret is a secret whose value is in a file of whoever wrote the job file: they read it and
// hand it over beside the job.
type LocalSecret struct {
	Name string
	Path string // with the job file's folder in front
	At   string // FILE:LINE:COLUMN
}

// secretRule is what a secret may be called.
const secretRule = "a secret's name is that of the file in which tasks find it: letters, digits and _, not beginning with a digit, at most 64 of them"

// SecretName tells whether a secret can be called so.
func SecretName(name string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
	return name != "" && len(name) <= taskstate.MaxSecretName && strings.Trim(name, letters+"0123456789") == "" && strings.ContainsAny(name[:1], letters)
}

// secrets reads where the values of secrets are; they never stand in the file itself.
func (r *reader) secrets(n ast.Node, path string) {
	const example = "as in {DBPASS: {file: dbpass.txt}}"
	pairs, ok := entries(n)
	if !ok {
		r.fail(placeAt(n), "%s: expected names and where their values are, %s, got %s", path, example, kind(n))
		return
	}
	seen := map[string]bool{}
	for _, kv := range pairs {
		name, at := kv.Key.GetToken().Value, placeAt(kv.Key)
		full := path + "." + name
		switch {
		case seen[name]:
			r.fail(at, "the key %q is given twice", name)
			continue
		case !SecretName(name):
			r.fail(at, "%s: %s", path, secretRule)
			continue
		case kv.Value == nil || kv.Value.Type() == ast.NullType:
			r.fail(at, "%s has no value; say which file holds it, %s", full, example)
			continue
		}
		seen[name] = true
		if _, ok := entries(kv.Value); !ok { // not what it is: it may be the secret
			r.fail(placeAt(kv.Value), "%s: a secret does not stand in a job file; put its value into a file and name that, %s", full, example)
			continue
		}
		file := ""
		before := len(r.errs)
		r.object(kv.Value, full, []field{{"file", func(n ast.Node, p string) { file = r.filled(n, p) }}})
		if _, said := r.at[full+".file"]; !said && len(r.errs) == before {
			r.fail(placeAt(kv.Value), "%s: say which file holds it, %s", full, example)
		}
		if file == "" {
			continue
		}
		if r.opts.Secrets == nil {
			r.fail(at, "%s: the files of secrets are read by `peer submit`", full)
			continue
		}
		local := filepath.FromSlash(file)
		if !filepath.IsAbs(local) {
			local = filepath.Join(filepath.Dir(r.file), local)
		}
		p := placeAt(kv.Value)
		*r.opts.Secrets = append(*r.opts.Secrets, LocalSecret{name, local, fmt.Sprintf("%s:%d:%d", r.file, p.line, p.col)})
	}
	if len(pairs) == 0 {
		r.fail(placeAt(n), "%s: there is none; leave the key out", path)
	}
	if len(seen) > taskstate.MaxSecrets {
		r.fail(placeAt(n), "%s: there are %d, at most %d are allowed; put several values into one file", path, len(seen), taskstate.MaxSecrets)
	}
}

// secrets checks those of a job that is complete: their peer has sealed them.
func (ps *checks) secrets(j *taskstate.Job) {
	s := j.Secrets
	if s == nil {
		return
	}
	if j.Run.Process == nil {
		ps.bad("secrets", "only a process reads files")
	}
	switch {
	case len(s.Names) == 0:
		ps.bad("secrets", "there is none; leave the key out")
	case len(s.Names) > taskstate.MaxSecrets:
		ps.bad("secrets", "there are %d, at most %d are allowed; put several values into one file", len(s.Names), taskstate.MaxSecrets)
	case !slices.IsSorted(s.Names) || len(slices.Compact(slices.Clone(s.Names))) != len(s.Names):
		ps.bad("secrets", "the names are not ascending")
	case s.By == "" || len(s.Digest) != sha256Len || len(s.Sealed) == 0 || len(s.Sealed) > seal.MaxSealed:
		ps.bad("secrets", "they are not sealed; hand their values to the peer that is asked, as `peer submit` does")
	}
	for _, name := range s.Names {
		if !SecretName(name) {
			ps.bad("secrets", secretRule)
		}
	}
	if slices.ContainsFunc(j.Matrix, func(a taskstate.Axis) bool { return strings.EqualFold(a.Name, "secrets") }) {
		ps.bad("matrix.secrets", "COVEY_SECRETS is the folder with the job's secrets; give the axis another name")
	}
}

const sha256Len = 32

// PublicSecrets are the variables of a job's environment whose names sound as if their values were
// nobody else's business.
func PublicSecrets(j *taskstate.Job) (names []string) {
	if j.Run.Process == nil {
		return nil
	}
	for name := range j.Run.Process.Env {
		if soundsSecret(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// soundsSecret looks at the parts of a name, so that KEYBOARD and TOKENIZER are no keys and tokens.
func soundsSecret(name string) bool {
	parts := strings.FieldsFunc(strings.ToUpper(name), func(c rune) bool { return c == '_' || c == '-' || c == '.' })
	for _, p := range parts {
		if slices.Contains([]string{"KEY", "PASS", "PW", "PWD", "TOKEN", "SECRET", "APIKEY", "CREDENTIAL", "CREDENTIALS", "TOKENS", "SECRETS"}, p) ||
			strings.Contains(p, "PASSW") || strings.Contains(p, "PASSPHRASE") || strings.HasSuffix(p, "PASS") || strings.HasSuffix(p, "SECRET") || strings.HasSuffix(p, "TOKEN") || strings.HasSuffix(p, "APIKEY") {
			return true
		}
	}
	return false
}
