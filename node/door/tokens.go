package door

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coveyproject/covey/internal/atomicfile"
	"github.com/coveyproject/covey/node/api"
)

// FileName is the file of the data folder with the tokens.
const FileName = "tokens"

// maxTokens bounds how many there are.
const maxTokens = 256

// maxLife bounds for how long one is good.
const maxLife = 10 * 366 * 24 * time.Hour

// maxName bounds a token's name in bytes.
const maxName = 64

// kept is a token on disk: of its secret there is a hash. Secrets are random, so that a plain one
// is enough.
type kept struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Scope   api.Scope `json:"scope"`
	Hash    string    `json:"sha256"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
	Web     bool      `json:"web,omitempty"`
}

// tokens are those on disk. It is safe for concurrent use.
type tokens struct {
	path string
	now  func() time.Time

	damaged error // the file cannot be read: there are none, and none is made

	mu    sync.Mutex
	all   []kept
	being map[string]map[*guest]bool // let in now, by the token's id
}

// guest is a request that a token let in.
type guest struct{ ends func() }

// errOver is the last thing that a stream says whose token ends.
var errOver = api.Errorf(api.Refused, "the token that was shown has ended: it was revoked, or has expired")

// openTokens reads the file. One that is damaged lets nobody in, and is not written over.
func openTokens(path string, now func() time.Time) (*tokens, error) {
	t := &tokens{path: path, now: now, being: map[string]map[*guest]bool{}}
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return t, nil
	case err != nil:
		t.damaged = api.Errorf(api.Failed, "the tokens cannot be read: %v; start the peer again when they can be", err)
		return t, t.damaged
	}
	if err := json.Unmarshal(b, &t.all); err != nil {
		t.all = nil
		t.damaged = api.Errorf(api.Failed, "the file %s with the tokens is damaged: %v; remove it, start the peer again, and make new ones with `peer token create`", path, err)
	}
	return t, t.damaged
}

// live are those that have not expired. The caller holds the lock.
func (t *tokens) live() []kept {
	now := t.now()
	return slices.DeleteFunc(slices.Clone(t.all), func(k kept) bool { return !now.Before(k.Expires) })
}

// put writes and keeps them. The caller holds the lock.
func (t *tokens) put(all []kept) error {
	if t.damaged != nil {
		return t.damaged
	}
	b, err := json.MarshalIndent(all, "", " ")
	if err == nil {
		err = atomicfile.Write(t.path, append(b, '\n'))
	}
	if err != nil {
		return api.Errorf(api.Failed, "the tokens cannot be written: %v", err)
	}
	t.all = all
	return nil
}

// check says what is wrong with what is asked for.
func check(r api.TokenRequest) error {
	switch {
	case !slices.Contains([]api.Scope{api.ReadScope, api.SubmitScope, api.AdminScope}, r.Scope):
		return api.Errorf(api.Usage, "scope %q: expected read, submit or admin", r.Scope)
	case r.Expires <= 0 || r.Expires > maxLife.Seconds():
		return api.Errorf(api.Usage, "a token expires: in more than nothing and in at most ten years, as in --expires 30d")
	case len(r.Name) > maxName || strings.ContainsFunc(r.Name, func(c rune) bool { return c <= ' ' || c == 0x7f }):
		return api.Errorf(api.Usage, "the token's name %q: expected at most %d letters, without blanks", r.Name, maxName)
	}
	return nil
}

// create draws a token.
func (t *tokens) create(r api.TokenRequest, web bool) (api.AccessToken, error) {
	if err := check(r); err != nil {
		return api.AccessToken{}, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.live()
	id := strings.ToLower(rand.Text()[:8])
	k := kept{ID: id, Name: cmp.Or(r.Name, id), Scope: r.Scope, Web: web, Created: t.now().UTC().Truncate(time.Second)}
	k.Expires = k.Created.Add(time.Duration(r.Expires * float64(time.Second)))
	switch {
	case len(all) >= maxTokens:
		return api.AccessToken{}, api.Errorf(api.Conflict, "there are %d tokens, and no more can be; end some with `peer token revoke`", maxTokens)
	case slices.ContainsFunc(all, func(o kept) bool { return o.Name == k.Name || o.ID == k.Name }):
		return api.AccessToken{}, api.Errorf(api.Conflict, "there is a token %s already; take another name, or end it with `peer token revoke %s`", k.Name, k.Name)
	}
	secret := "covey_" + rand.Text()
	k.Hash = hashOf(secret)
	if err := t.put(append(all, k)); err != nil {
		return api.AccessToken{}, err
	}
	a := k.shown()
	a.Secret = secret
	return a, nil
}

func (k kept) shown() api.AccessToken {
	return api.AccessToken{ID: k.ID, Name: k.Name, Scope: k.Scope, Created: k.Created, Expires: k.Expires, Web: k.Web}
}

func hashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// enter finds the token with this secret, and a context that ends with it: a stream that began
// while it was good must not outlive it. Hashes are compared, whose bytes tell nobody anything.
// Whoever was let in calls leave.
func (t *tokens) enter(ctx context.Context, secret string) (k kept, in context.Context, leave func(), ok bool) {
	hash := hashOf(secret)
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(t.all, func(k kept) bool { return k.Hash == hash })
	if i < 0 {
		return kept{}, nil, nil, false
	}
	k = t.all[i]
	left := k.Expires.Sub(t.now())
	if left <= 0 {
		return kept{}, nil, nil, false
	}
	in, cancel := context.WithCancelCause(ctx)
	g := &guest{func() { cancel(errOver) }}
	end := time.AfterFunc(left, g.ends)
	if t.being[k.ID] == nil {
		t.being[k.ID] = map[*guest]bool{}
	}
	t.being[k.ID][g] = true
	return k, in, func() {
		end.Stop()
		cancel(nil)
		t.mu.Lock()
		defer t.mu.Unlock()
		if delete(t.being[k.ID], g); len(t.being[k.ID]) == 0 {
			delete(t.being, k.ID)
		}
	}, true
}

// revoke ends a token, and what it let in.
func (t *tokens) revoke(id string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.live()
	rest := slices.DeleteFunc(slices.Clone(all), func(k kept) bool { return k.ID == id || k.Name == id })
	if len(rest) == len(all) && t.damaged == nil {
		return api.Errorf(api.NotFound, "no token %q; see `peer token list`", id)
	}
	if err := t.put(rest); err != nil {
		return err
	}
	for _, k := range all {
		if k.ID != id && k.Name != id {
			continue
		}
		for g := range t.being[k.ID] {
			g.ends()
		}
	}
	return nil
}

func (t *tokens) list() []kept {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.live()
}
