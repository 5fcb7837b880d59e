package api_test

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
)

// guarded puts a backend behind a gate, asked by who.
func guarded(t *testing.T, b api.Backend, g *api.Gate, who api.Caller) (*client.Client, string) {
	t.Helper()
	c, path := serving(t, &http.Server{
		Handler: api.NewHandler(b, g),
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context {
			return api.WithCaller(ctx, func() api.Caller { return who })
		},
	})
	return c, filepath.Dir(path)
}

// asked are calls of each right.
func asked(ctx context.Context, c *client.Client) map[string]error {
	all := map[string]error{}
	_, all["status"] = c.Status(ctx)
	_, all["job"] = c.Job(ctx, "mine")
	_, all["cancel mine"] = c.Cancel(ctx, "mine")
	_, all["cancel a task of mine"] = c.Cancel(ctx, "mine.1")
	_, all["cancel another's"] = c.Cancel(ctx, "another")
	_, all["submit"] = c.Submit(ctx, api.Submit{})
	_, all["ticket"] = c.Invite(ctx, api.TicketRequest{Roles: []string{"admin"}})
	_, all["tickets"] = c.Invites(ctx)
	all["revoke"], all["remove"], all["leave"], all["down"] = c.Revoke(ctx, "t"), c.Remove(ctx, "p", api.Removal{}), c.Leave(ctx), c.Down(ctx)
	_, all["ordered by"] = c.OrderedBy(ctx, "p")
	_, all["plan of recover"] = c.PlanRecover(ctx)
	_, all["recover"] = c.Recover(ctx, api.Recover{})
	_, all["set"] = c.Set(ctx, api.Settings{})
	_, all["roles"] = c.SetRoles(ctx, "p", api.Roles{})
	_, all["drain"] = c.SetAvailability(ctx, "p", api.Availability{})
	_, all["labels"] = c.SetLabels(ctx, "p", api.Labels{})
	_, all["thaw"] = c.Thaw(ctx)
	return all
}

const administration = "ticket tickets revoke remove ordered-by leave down plan-of-recover recover set roles drain labels thaw"

// isAdministration tells whether a call of asked is.
func isAdministration(what string) bool {
	return strings.Contains(" "+administration+" ", " "+strings.ReplaceAll(what, " ", "-")+" ")
}

type open struct{ fake }

func (o *open) Set(context.Context, api.Settings) (api.SettingsAnswer, error) {
	return api.SettingsAnswer{}, nil
}

func (o *open) SetRoles(context.Context, string, api.Roles) (api.PeerAnswer, error) {
	return api.PeerAnswer{}, nil
}

func (o *open) SetAvailability(context.Context, string, api.Availability) (api.PeerAnswer, error) {
	return api.PeerAnswer{}, nil
}

func (o *open) SetLabels(context.Context, string, api.Labels) (api.PeerAnswer, error) {
	return api.PeerAnswer{}, nil
}
func (o *open) Thaw(context.Context) (api.Thawed, error) { return api.Thawed{}, nil }

func backend() *open {
	return &open{fake{
		submit: func(api.Submit) (api.Submitted, error) { return api.Submitted{ID: "new"}, nil },
		job: func(id string) (api.JobAnswer, error) {
			return api.JobAnswer{Job: api.Job{ID: id, Submitter: map[string]string{"mine": "self", "another": "other"}[id]}}, nil
		},
	}}
}

// TestWhatAPeerSignsIsForACallerThatShowsTheToken is about processes that no task is above:
// a shell of the machine, or what left its task.
func TestWhatAPeerSignsIsForACallerThatShowsTheToken(t *testing.T) {
	reads := func(peer string) bool { return peer == "self" }
	c, dir := guarded(t, backend(), &api.Gate{Self: "self", Token: "t0ken", Reads: reads}, api.Caller{PID: 1, UID: os.Geteuid()})
	for said, good := range map[string]bool{"": false, "t0ken\n": true, "t0ke": false, "t0kenn": false} {
		if err := os.WriteFile(api.TokenPath(dir), []byte(said), 0o600); err != nil {
			t.Fatal(err)
		}
		for what, err := range asked(t.Context(), c) {
			if want := good || what == "status"; want != (err == nil) || !want && (api.AsError(err).Code != api.Refused || !strings.Contains(err.Error(), "api.token")) {
				t.Errorf("%s with the token %q: %v", what, said, err)
			}
		}
	}
}

// TestEveryRouteWantsTheTokenButThoseThatEveryMemberMayAsk is the same of every line of the table.
func TestEveryRouteWantsTheTokenButThoseThatEveryMemberMayAsk(t *testing.T) {
	c, _ := guarded(t, backend(), &api.Gate{Self: "self", Token: "t0ken"}, api.Caller{PID: 1, UID: os.Geteuid()})
	for _, r := range api.Routes() {
		method, path, _ := strings.Cut(r.Pattern, " ")
		if method == http.MethodGet && r.Scope() == api.ReadScope {
			continue
		}
		body, err := c.Raw(t.Context(), method, strings.ReplaceAll(path, "{id}", "mine"), "", strings.NewReader("{}"))
		if err == nil {
			body.Close()
		}
		if err == nil || api.AsError(err).Code != api.Refused || !strings.Contains(err.Error(), "api.token") {
			t.Errorf("%s: %v", r.Pattern, err)
		}
	}
}

func TestATaskThatWasSubmittedHereMayDoWhatItsSubmitterMayButNotAdminister(t *testing.T) {
	c, dir := guarded(t, backend(), &api.Gate{Self: "self", Token: "t0ken"}, api.Caller{Inside: true, Task: "mine.1.1", As: "self"})
	for what, err := range asked(t.Context(), c) {
		refused := isAdministration(what) || what == "cancel another's"
		if refused != (err != nil) || refused && !strings.Contains(err.Error(), "task mine.1.1") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := os.WriteFile(api.TokenPath(dir), []byte("t0ken"), 0o600); err != nil {
		t.Fatal(err)
	}
	for what, err := range asked(t.Context(), c) {
		if err != nil {
			t.Errorf("%s with the token, which tasks cannot read: %v", what, err)
		}
	}
}

func TestATaskOfAnotherPeerMayOnlyAsk(t *testing.T) {
	c, _ := guarded(t, backend(), &api.Gate{Self: "self"}, api.Caller{Inside: true, Task: "another.1.1", As: "other", AsName: "marie"})
	for what, err := range asked(t.Context(), c) {
		refused := what != "status" && what != "job"
		if refused != (err != nil) || refused && !isAdministration(what) && !strings.Contains(err.Error(), "submitted through marie") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// withItems is a peer whose tasks have items.
type withItems struct{ *open }

func (b withItems) Tasks(_ context.Context, id string) (api.Tasks, error) {
	return api.Tasks{Tasks: []api.Task{{Job: id, Item: "a\\xff", ItemBase64: []byte("a\xff")}}}, nil
}

func (b withItems) AllTasks(ctx context.Context, id string) (api.Tasks, error) {
	return b.Tasks(ctx, id)
}

func (b withItems) SomeTasks(ctx context.Context, id string, _ api.TaskQuery) (api.Tasks, error) {
	return b.Tasks(ctx, id)
}

func (b withItems) Follow(ctx context.Context, id string, _ bool, send func(api.Progress) error) error {
	all, _ := b.Tasks(ctx, id)
	return send(api.Progress{Tasks: all.Tasks})
}

func (b withItems) Jobs(context.Context) (api.Jobs, error) {
	return api.Jobs{Jobs: []api.Job{{ID: "mine", Command: "./train"}}}, nil
}

func TestAListOfJobsHasTheirCommandsForCallersThatMayReadAllJobs(t *testing.T) {
	for as, want := range map[string]bool{"owner": true, "reader": true, "other": false, "": false} {
		who := api.Caller{Inside: as == "other" || as == "reader", UID: os.Geteuid()}
		if who.Inside {
			who.As = as
		}
		c, dir := guarded(t, withItems{backend()}, &api.Gate{Self: "self", Token: "t0ken", Reads: func(peer string) bool { return peer == "reader" }}, who)
		if as == "owner" {
			if err := os.WriteFile(api.TokenPath(dir), []byte("t0ken"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		js, err := c.Jobs(t.Context())
		if err != nil || len(js.Jobs) != 1 || (js.Jobs[0].Command != "") != want {
			t.Errorf("%q: %+v, %v", as, js.Jobs, err)
		}
	}
}

func TestFromInsideATaskItemsAreShownOfJobsThatItsSubmitterMayRead(t *testing.T) {
	reads := func(peer string) bool { return peer == "reader" }
	for as, jobs := range map[string]map[string]bool{
		"other":  {"mine": false, "another": true},
		"reader": {"mine": true, "another": true},
		"":       {"mine": false, "another": false}, // of no known task
		"owner":  {"mine": true, "another": true},
	} {
		who := api.Caller{Inside: as == "other" || as == "reader", UID: os.Geteuid()}
		if who.Inside {
			who.As = as
		}
		c, dir := guarded(t, withItems{backend()}, &api.Gate{Self: "self", Token: "t0ken", Reads: reads}, who)
		if as == "owner" {
			if err := os.WriteFile(api.TokenPath(dir), []byte("t0ken"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for job, want := range jobs {
			rows := map[string][]api.Task{}
			collect := func(how string, all api.Tasks, err error) {
				if err != nil {
					t.Fatal(err)
				}
				rows[how] = all.Tasks
			}
			all, err := c.Tasks(t.Context(), job)
			collect("tasks", all, err)
			all, err = c.AllTasks(t.Context(), job)
			collect("all", all, err)
			all, err = c.SomeTasks(t.Context(), job, api.TaskQuery{Limit: 1})
			collect("some", all, err)
			if err := c.Follow(t.Context(), job, true, func(p api.Progress) error { rows["follow"] = p.Tasks; return nil }); err != nil {
				t.Fatal(err)
			}
			for how, r := range rows {
				if len(r) != 1 || (r[0].Item != "") != want || (r[0].ItemBase64 != nil) != want {
					t.Errorf("%q asks for %s of %s: %+v", as, how, job, r)
				}
			}
		}
	}
}

func TestAProcessOfATaskThatIsNotKnownLearnsWhatEveryMemberMayKnow(t *testing.T) {
	c, _ := guarded(t, backend(), &api.Gate{Self: "self"}, api.Caller{Inside: true, Why: "its parents have ended"})
	for what, err := range asked(t.Context(), c) {
		if what == "status" && err == nil {
			continue
		}
		if err == nil || !isAdministration(what) && !strings.Contains(err.Error(), "its parents have ended") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestAPeerThatMayOpenNoFileToTellWhatAsksSaysToTryAgain(t *testing.T) {
	c, _ := guarded(t, backend(), &api.Gate{Self: "self"}, api.Caller{Inside: true, Busy: true, Why: "too many open files"})
	for what, err := range asked(t.Context(), c) {
		if err == nil || !strings.Contains(err.Error(), "try again") || strings.Contains(err.Error(), "runs in a task") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestCallsThatChangeSomethingAreNotedAndThoseThatWereRefused(t *testing.T) {
	var noted []string
	note := func(n api.Noted) {
		line := n.Call
		if n.Err != nil {
			line += " " + string(n.Err.Code)
		}
		noted = append(noted, line)
	}
	b := backend()
	c, _ := guarded(t, b, &api.Gate{Self: "self", Note: note}, api.Caller{UID: os.Geteuid()})
	_, _ = c.Status(t.Context())
	_, _ = c.Submit(t.Context(), api.Submit{})
	b.err = api.Errorf(api.Conflict, "no")
	_, _ = c.Cancel(t.Context(), "mine")
	_, _ = c.Invites(t.Context())
	if got := strings.Join(noted, "; "); got != "POST /v1/jobs; POST /v1/jobs/mine/cancel conflict" {
		t.Errorf("noted %s", got)
	}
	noted = nil
	c, _ = guarded(t, b, &api.Gate{Self: "self", Note: note, Token: "x"}, api.Caller{UID: os.Geteuid()})
	_, _ = c.Invites(t.Context())
	if got := strings.Join(noted, "; "); got != "GET /v1/tickets refused" {
		t.Errorf("noted %s", got)
	}
}

func TestAnotherUsersProcessThatIsNoTasksIsAnsweredNothing(t *testing.T) {
	c, _ := guarded(t, backend(), &api.Gate{Self: "me"}, api.Caller{UID: os.Geteuid() + 4711})
	for what, err := range asked(t.Context(), c) {
		if err == nil || !strings.Contains(err.Error(), "belongs to another user") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestEveryStartDrawsItsTokenAndWithoutAPlaceForItNobodyAdministers(t *testing.T) {
	data := t.TempDir()
	first, err := api.DrawToken(data)
	if err != nil {
		t.Fatal(err)
	}
	second, err := api.DrawToken(data)
	if written, _ := os.ReadFile(api.TokenPath(data)); err != nil || second == first || string(written) != second+"\n" {
		t.Errorf("%q after %q, and %q is written: %v", second, first, written, err)
	}
	if token, err := api.DrawToken(filepath.Join(data, "nowhere")); err == nil || token == "" {
		t.Errorf("%q, %v: without a token that can be shown, nobody may administer", token, err)
	}
}
