package api

import (
	"context"
	"time"

	"github.com/coveyproject/covey/taskstate"
)

// TrustBackend tells what this machine's owner lets run here. The owner changes it in its file.
type TrustBackend interface {
	// Trust reads the policy's file again, and tells what is in force.
	Trust(ctx context.Context) (Trust, error)
	// TryTrust tells what would become of a task, and changes nothing.
	TryTrust(ctx context.Context, t TrustTry) (TrustTried, error)
}

// Trust answers GET /v1/trust: what this machine lets run.
type Trust struct {
	File     string      `json:"file"`
	Wrong    string      `json:"wrong,omitempty"` // why the file as it is now is not in force
	Unsigned bool        `json:"unsigned"`        // jobs that nobody signed are taken at their word
	OnRevoke string      `json:"on_revoke"`       // stop or finish: what runs of a key that is no longer let in
	Rules    []TrustRule `json:"rules"`           // the first that fits decides
	Holds    []string    `json:"holds"`           // what holds here, of what rules can ask for
	// Lacks says of what does not hold here why, for people, as far as that is known.
	Lacks    map[string]string `json:"lacks,omitempty"`
	Warnings []string          `json:"warnings,omitempty"`
	Keys     []TrustKey        `json:"keys"` // of members that may submit
	AsOf     time.Time         `json:"as_of"`
}

// TrustRule is one rule of a policy.
type TrustRule struct {
	Line    int      `json:"line,omitempty"` // of the file
	From    []string `json:"from"`
	Run     string   `json:"run"`
	Env     []string `json:"env,omitempty"` // variables that listed programs may have of a job's environment, besides harmless ones
	As      string   `json:"as,omitempty"`
	Read    []string `json:"read,omitempty"`
	Net     string   `json:"net,omitempty"`
	Isolate string   `json:"isolate,omitempty"`
	Limits  string   `json:"limits,omitempty"`
	Require []string `json:"require,omitempty"`
	Without []string `json:"without,omitempty"`
}

// TrustKey is a key that rules can name.
type TrustKey struct {
	Key   string   `json:"key"`
	Name  string   `json:"name"`
	Roles []string `json:"roles"` // that people gave it, as far as this machine can check
}

// TrustTry asks what would become of a task of a job that a key asks for; "" is this machine's own.
type TrustTry struct {
	Job taskstate.Job `json:"job"`
	By  string        `json:"by,omitempty"`
}

// TrustTried answers POST /v1/trust/test.
type TrustTried struct {
	Allowed bool      `json:"allowed"`
	Rule    int       `json:"rule,omitempty"`   // that decides, from 1
	Reason  string    `json:"reason,omitempty"` // why not, or what it waits for
	Held    []string  `json:"held,omitempty"`   // what it would run under, in words of a policy: as: self
	AsOf    time.Time `json:"as_of"`
}
