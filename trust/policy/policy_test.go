package policy_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
	. "github.com/coveyproject/covey/trust/policy"
)

const (
	mine   = "12D3KooWmine1111"
	marie  = "12D3KooWmarie111"
	friend = "12D3KooWfriend11"
)

func read(t testing.TB, text string) Policy {
	t.Helper()
	p, err := Read([]byte(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return p
}

func process(command ...string) *taskstate.Run {
	return &taskstate.Run{Process: &taskstate.Process{Command: command}}
}

func claim(by string, run *taskstate.Run, roles ...admission.Role) Claim {
	return Claim{On: mine, By: by, Signed: true, Run: run, Roles: roles}
}

func TestMyMachinesRunWhatTheirOwnersAskAndNothingElse(t *testing.T) {
	p := read(t, string(Text(true, false)))
	for _, c := range []struct {
		what string
		ask  Claim
		may  bool
	}{
		{"itself", claim(mine, process("true")), true},
		{"an administrator", claim(marie, process("true"), admission.Admin), true},
		{"a guest", claim(friend, process("true"), admission.Submit, admission.Worker), false},
		{"nobody", claim("", process("true")), false},
	} {
		if _, why := Decide(p, c.ask, Load{}); why.No() == c.may {
			t.Errorf("%s: may: %v, %q", c.what, c.may, why.Text)
		}
	}
	unsigned := claim(mine, process("true"))
	unsigned.Signed = false
	if _, why := Decide(p, unsigned, Load{}); !why.No() {
		t.Error("an unsigned job runs")
	}
	if _, why := Decide(read(t, string(Text(true, true))), unsigned, Load{}); why.No() {
		t.Errorf("an unsigned job does not run where the owner allows it: %s", why.Text)
	}
}

func TestAMachineOfOthersRunsNothingUntilItsOwnerSaysSo(t *testing.T) {
	text := Text(false, false)
	ask := claim(marie, process("true"), admission.Admin)
	if _, why := Decide(read(t, string(text)), ask, Load{}); why.Text != "no rule lets in jobs of "+marie+"; its owner can: peer trust add "+marie {
		t.Errorf("%+v", why)
	}
	text, err := Add(text, marie, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, why := Decide(read(t, string(text)), ask, Load{}); why.No() {
		t.Errorf("%+v", why)
	}
	if _, err := Add(text, friend, []string{"ffmpeg"}); err == nil || !strings.Contains(err.Error(), `"ffmpeg"`) || strings.Contains(err.Error(), "trust edit") {
		t.Errorf("a program without its folder: %v", err)
	}
	if _, err := Add(text, marie, nil); !errors.Is(err, ErrHas) {
		t.Errorf("added twice: %v", err)
	}
	text, had, err := Remove(text, marie)
	if err != nil || !had || string(text) != string(Text(false, false)) {
		t.Errorf("%v %v\n%s", had, err, text)
	}
}

func TestTheFirstRuleThatNamesWhoAndWhatDecides(t *testing.T) {
	p := read(t, `
rules:
- from: [key:`+marie+`]
  run: {process: [/usr/bin/ffmpeg], script: true}
  limits: {cpus: 4, tasks: 10, time: 2h}
- from: [role:submit]
  run: {process: any, shell: true}
  net: none
`)
	p = p.Here([]string{taskstate.RequireNet})
	encode := claim(marie, process("/usr/bin/ffmpeg", "-i", "x"), admission.Submit)
	encode.Resources.MilliCPU = 1000 // as jobs have it that do not say otherwise
	held, why := Decide(p, encode, Load{})
	if why.No() || held.MaxTime != 7_200_000 || held.Net != taskstate.NetAny {
		t.Errorf("%+v %+v", held, why)
	}
	if held, why = Decide(p, claim(marie, process("/bin/sh"), admission.Submit), Load{}); why.No() || held.Net != taskstate.NetNone {
		t.Errorf("%+v %+v", held, why)
	}
	if _, why = Decide(p, claim(marie, process("/bin/sh")), Load{}); why.Text != "rule 1 (line 3) runs only /usr/bin/ffmpeg" {
		t.Errorf("%+v", why)
	}
	script := process("x")
	script.Process.Script = []byte("#!/bin/sh\n")
	if _, why = Decide(p, claim(friend, script, admission.Submit), Load{}); why.Text != "rule 2 (line 6) runs no scripts" {
		t.Errorf("%+v", why)
	}
}

func TestAListOfProgramsHasNoVariablesThatCodeIsLoadedBy(t *testing.T) {
	const rule = "rules:\n- from: [key:" + marie + "]\n  run: {process: [/usr/bin/curl], shell: true}\n"
	bare, named, wide := read(t, rule), read(t, rule+"  env: [OPENSSL_CONF, NOT_CODE]\n"), read(t, "rules:\n- from: [key:"+marie+"]\n  run: {process: any}\n")
	for name, may := range map[string][2]bool{
		"LD_PRELOAD": {}, "LD_": {}, "DYLD_INSERT_LIBRARIES": {}, "GCONV_PATH": {}, "PATH": {}, "HOME": {}, "IFS": {}, "BASH_ENV": {},
		"PYTHONPATH": {}, "GIT_SSH_COMMAND": {}, "LOCPATH": {}, "LANGUAGE": {}, "TERMINFO": {}, "TZDIR": {}, "lang": {}, "COVEY": {}, "": {},
		"OPENSSL_CONF": {false, true}, "NOT_CODE": {false, true},
		"COVEY_X": {true, true}, "LANG": {true, true}, "LC_ALL": {true, true}, "TZ": {true, true}, "TERM": {true, true}, "TRACEPARENT": {true, true},
	} {
		run := process("/usr/bin/curl")
		run.Process.Env = map[string]string{"LANG": "C", name: "x"}
		for i, p := range []Policy{bare, named} {
			if _, why := Decide(p, claim(marie, run), Load{}); why.No() == may[i] || why.No() && !strings.Contains(why.Text, "the job's `env:` has "+name) {
				t.Errorf("with %q, rule %d: %+v", name, i, why)
			}
		}
		if _, why := Decide(wide, claim(marie, run), Load{}); why.No() {
			t.Errorf("with %q, any program: %+v", name, why)
		}
		run.Process.Shell = true
		if _, why := Decide(bare, claim(marie, run), Load{}); why.No() {
			t.Errorf("with %q, a shell line: %+v", name, why)
		}
	}
	if d := named.Digest(); !slices.Equal(d.Rules[0].Env, []string{"OPENSSL_CONF", "NOT_CODE"}) {
		t.Errorf("others are told %+v", d.Rules)
	}
	for _, text := range []string{"rules:\n- {from: [self], run: any, env: [A]}\n", "rules:\n- {from: [self], run: {process: [/bin/a]}, env: [A=b]}\n", "rules:\n- {from: [self], run: {process: [/bin/a]}, env: ['*']}\n"} {
		if _, err := Read([]byte(text)); err == nil || !strings.Contains(err.Error(), "env: ") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestWhatARuleAsksOfTheMachineMustHoldThere(t *testing.T) {
	// Attack (n): `require: landlock` on a kernel without it is refused, not run bare.
	for _, demand := range []string{"require: [landlock]", "require: [uid]", "require: [cgroup]", "require: [net]", "net: none", "as: dynamic", "as: user:nobody", "isolate: fs", "isolate: strong", "read: [/data]"} {
		p := read(t, "rules:\n- from: [self]\n  run: any\n  "+demand+"\n")
		if held, why := Decide(p, claim(mine, process("true")), Load{}); !why.No() {
			t.Errorf("%s on a machine where nothing holds: runs under %+v", demand, held)
		}
		all := []string{"landlock", "uid", "cgroup", "net", "fs", "strong"}
		if _, why := Decide(p.Here(all), claim(mine, process("true")), Load{}); why.No() {
			t.Errorf("%s where all holds: %s", demand, why.Text)
		}
	}
	ask := claim(mine, process("true"))
	ask.Isolate = taskstate.IsolateFS
	for _, ask.Isolate = range []string{taskstate.IsolateFS, taskstate.IsolateStrong} {
		if _, why := Decide(MyMachines(), ask, Load{}); why.Text != "its job asks for isolate: "+ask.Isolate+", which does not hold on this machine" {
			t.Errorf("a job that asks to be isolated: %+v", why)
		}
	}
}

func TestAStronglyIsolatedTaskHasANetworkOnlyWhereWhoIsolatesItNamesOne(t *testing.T) {
	const none, some = taskstate.NetNone, taskstate.NetAny
	for _, c := range []struct{ rule, isolate, net, want string }{
		{"", "", "", some},
		{"", "", none, none},
		{"net: none", "", some, none},
		{"net: any", "", none, none},
		{"", "strong", "", none},
		{"", "strong", some, some},
		{"net: none", "strong", some, none},
		{"net: any", "strong", "", some},
		{"net: any", "strong", none, none},
		{"isolate: fs", "strong", some, some},
		{"isolate: strong", "", "", none},
		{"isolate: strong", "strong", some, none}, // its owner isolates, and names none
		{"isolate: strong\n  net: any", "", "", some},
	} {
		ask := claim(mine, process("true"))
		ask.Isolate, ask.Net = c.isolate, c.net
		rule := ""
		if c.rule != "" {
			rule = "\n  " + c.rule
		}
		p := read(t, "rules:\n- from: [self]\n  run: any"+rule+"\n").Here([]string{taskstate.IsolateFS, taskstate.IsolateStrong, taskstate.RequireNet})
		if held, why := Decide(p, ask, Load{}); why.No() || held.Net != c.want {
			t.Errorf("%+v: %+v %+v", c, held, why)
		}
	}
}

func TestOfLimitsOfARuleAndOfAJobTheTighterCount(t *testing.T) {
	p := read(t, "rules:\n- from: [self]\n  run: any\n  limits: {files: 64, core: 0B}\n").Here([]string{taskstate.HoldsLimits})
	ask := claim(mine, process("true"))
	ask.Limits = map[string]int64{taskstate.LimitFiles: 128, taskstate.LimitCore: 5, taskstate.LimitFileSize: 7}
	held, why := Decide(p, ask, Load{})
	want := []taskstate.Limit{{Of: taskstate.LimitCore}, {Of: taskstate.LimitFileSize, Max: 7}, {Of: taskstate.LimitFiles, Max: 64}}
	if why.No() || !slices.Equal(held.Limits, want) {
		t.Errorf("%+v %+v", held, why)
	}
	ask.Limits = map[string]int64{taskstate.LimitFiles: 32}
	if held, _ = Decide(p, ask, Load{}); !slices.Equal(held.Limits, []taskstate.Limit{{Of: taskstate.LimitCore}, {Of: taskstate.LimitFiles, Max: 32}}) {
		t.Errorf("%+v", held)
	}
}

func TestWhatDoesNotHoldIsSaidOfWhoAsksForIt(t *testing.T) {
	const not = ", which does not hold on this machine"
	for _, c := range []struct{ rule, isolate, net, limit, want string }{
		{"", "fs", "", "", "its job asks for isolate: fs"},
		{"", "", "none", "", "its job asks for net: none"},
		{"", "", "", "files", "its job asks for a limit of its processes"},
		{"isolate: fs", "fs", "", "", `rule 1 (line 2) needs "fs"`},
		{"net: none", "", "none", "", `rule 1 (line 2) needs "net"`},
		{"limits: {files: 9}", "", "", "files", `rule 1 (line 2) needs "limits"`},
		{"require: [uid]", "fs", "", "", `rule 1 (line 2) needs "uid"`},
	} {
		ask := claim(mine, process("true"))
		if ask.Isolate, ask.Net = c.isolate, c.net; c.limit != "" {
			ask.Limits = map[string]int64{c.limit: 8}
		}
		rule := ""
		if c.rule != "" {
			rule = "\n  " + c.rule
		}
		p := read(t, "rules:\n- from: [self]\n  run: any"+rule+"\n")
		if _, why := Decide(p, ask, Load{}); why.Text != c.want+not {
			t.Errorf("%+v: %q", c, why.Text)
		}
		// Who has only the digest says the same, but for the line.
		if _, why := Decide(p.Digest(), ask, Load{}); strings.Replace(c.want, " (line 2)", "", 1)+not != why.Text {
			t.Errorf("%+v, by its digest: %q", c, why.Text)
		}
	}
}

func TestAUserOfItsOwnIsGivenWhereThereIsOne(t *testing.T) {
	if held, _ := Decide(MyMachines(), claim(mine, process("true")), Load{}); held.As != taskstate.AsSelf {
		t.Errorf("%+v", held)
	}
	if held, _ := Decide(MyMachines().Here([]string{taskstate.RequireUser}), claim(mine, process("true")), Load{}); held.As != taskstate.AsDynamic {
		t.Errorf("%+v", held)
	}
}

func TestOursIsWhatThisPeerOrAnAdminSigned(t *testing.T) {
	p := read(t, "unsigned: allow\nrules:\n- from: [key:"+friend+"]\n  run: any\n- from: [self, role:submit, role:admin]\n  run: any\n")
	unsigned := claim(mine, process("true"))
	unsigned.Signed = false
	for _, c := range []struct {
		what string
		ask  Claim
		ours bool
	}{
		{"its own", claim(mine, process("true")), true},
		{"an admin's", claim(marie, process("true"), admission.Admin), true},
		{"a submitter's", claim(marie, process("true"), admission.Submit), false},
		{"an admin's of others", claim(friend, process("true"), admission.Admin), false},
		{"what it is said to have asked for", unsigned, false},
	} {
		if held, why := Decide(p, c.ask, Load{}); why.No() || held.Ours != c.ours {
			t.Errorf("%s: %+v %q", c.what, held, why.Text)
		}
	}
}

// The worker would refuse it; who places the job, and who asks for it, is told before.
func TestProcessesOfRootAreNotLimited(t *testing.T) {
	root, other := []string{taskstate.HoldsLimits, taskstate.RequireUser}, []string{taskstate.HoldsLimits}
	for _, x := range []struct {
		rule  string
		asks  map[string]int64
		holds []string
		want  string
	}{
		{"as: self, limits: {processes: 9}", nil, root, "rule 1 (line 2) limits processes and has them run as root"},
		{"as: self", map[string]int64{taskstate.LimitProcesses: 9}, root, "its job asks for a limit of processes, and rule 1"},
		{"as: self", map[string]int64{taskstate.LimitFiles: 9}, root, ""},
		{"limits: {processes: 9}", nil, root, ""},
		{"as: self, limits: {processes: 9}", nil, other, ""},
	} {
		p := read(t, "rules:\n- {from: [self], run: any, "+x.rule+"}\n").Here(x.holds)
		c := claim(mine, process("true"))
		c.Limits = x.asks
		_, why := Decide(p, c, Load{})
		digest := p.Digest()
		_, told := Decide(digest, c, Load{})
		if why.No() != (x.want != "") || told.No() != why.No() || !strings.Contains(why.Text, x.want) {
			t.Errorf("%+v: %q here, %q elsewhere", x, why.Text, told.Text)
		}
	}
}

func TestLimitsOfProcessesAreWhatATaskIsHeldToWhereTheyCanBe(t *testing.T) {
	p := read(t, "rules:\n- {from: [self], run: any, limits: {files: 64, processes: 100, core: 0B, file_size: 1GiB, tasks: 3}}\n")
	want := []taskstate.Limit{{Of: "files", Max: 64}, {Of: "processes", Max: 100}, {Of: "core"}, {Of: "file_size", Max: 1 << 30}}
	c := Claim{On: "me", By: "me", Signed: true, Run: &taskstate.Run{Noop: &taskstate.Noop{}}}
	if _, why := Decide(p, c, Load{}); !strings.Contains(why.Text, "limits") {
		t.Errorf("where they cannot be: %+v", why)
	}
	held, why := Decide(p.Here([]string{taskstate.HoldsLimits}), c, Load{})
	if why.No() || !slices.Equal(held.Limits, want) {
		t.Errorf("%+v %+v", held, why)
	}
	if _, why := Decide(p.Digest(), c, Load{}); !strings.Contains(why.Text, "limits") {
		t.Errorf("who only knows the digest sends it where they cannot be: %+v", why)
	}
}

func TestLimitsHoldForAllTasksOfAKey(t *testing.T) {
	p := read(t, "rules:\n- {from: [key:"+marie+"], run: any, limits: {cpus: 2, memory: 1GiB, tasks: 3}}\n")
	ask := claim(marie, process("true"))
	for says, has := range map[string]taskstate.Resources{"--memory": {MilliCPU: 1000}, "--cpus": {Memory: 1 << 20}} {
		ask.Resources = has
		if _, why := Decide(p, ask, Load{}); !why.No() || why.Full || !strings.Contains(why.Text, says) {
			t.Errorf("a job that does not say what it needs of what is limited: %+v, want it to name %s", why, says)
		}
	}
	ask.Resources = taskstate.Resources{MilliCPU: 1000, Memory: 1 << 20}
	if _, why := Decide(p, ask, Load{Tasks: 1, Resources: taskstate.Resources{MilliCPU: 1000}}); why.No() {
		t.Errorf("%+v", why)
	}
	if _, why := Decide(p, ask, Load{Tasks: 2, Resources: taskstate.Resources{MilliCPU: 2000}}); !why.No() || !why.Full {
		t.Errorf("%+v", why)
	}
	if _, why := Decide(p, ask, Load{Tasks: 3}); !why.No() || !why.Full {
		t.Errorf("%+v", why)
	}
	ask.Resources.MilliCPU = 3000
	if _, why := Decide(p, ask, Load{}); !why.No() || why.Full {
		t.Errorf("one task above the limit: %+v", why)
	}
}

func TestABrokenPolicySaysWhere(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "1:1: the file is empty",
		"rules:\n- form: [self]\n  run: any": `2:3: unknown key "form" (did you mean "from"?)`,
		"rules:\n- from: [self]\n":           "2:3: a rule says what may be run",
		"rules:\n- run: any\n":               "2:3: a rule says who may",
		"rules:\n- from: [role:admn]\n  run: any":                   `2:10: from: there is no role "admn" (did you mean "admin"?)`,
		"rules:\n- from: [marie]\n  run: any":                       `2:10: from: expected self`,
		"rules:\n- from: [key:marie]\n  run: any":                   `2:10: from: "marie" is no peer's id`,
		"rules:\n- from: [self]\n  run: {process: [ls]}":            `3:19: process: "ls" is no absolute path`,
		"rules:\n- from: [self]\n  run: any\n  net: some":           `4:8: net: expected none or any`,
		"rules:\n- from: [self]\n  run: any\n  as: root":            `4:7: as: expected`,
		"rules:\n- from: [self]\n  run: &x any":                     "3:8: anchors",
		"rules: []\nrules: []":                                      "2:1:",
		"unsigned: allow":                                           "1:1: rules: is missing",
		"rules: []\nunsigned: true":                                 "2:11: unsigned: expected allow or refuse",
		"rules:\n- from: [self]\n  run: any\n  limits: {tasks: 0}":  "4:19: tasks: expected",
		"rules:\n- from: [self]\n  run: any\n  limits: {files: 3}":  "4:19: files: expected at least 4",
		"rules:\n- from: [self]\n  run: any\n  limits: {core: big}": "4:18: core: expected at least 0",
		"rules:\n\t- x": "2:1:",
	} {
		_, err := Read([]byte(text))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, expected %s", text, err, want)
		}
	}
}

// drawn is any policy that a file can say.
func drawn() *rapid.Generator[Policy] {
	from := rapid.SampledFrom([]string{Self, Role + "admin", Role + "submit", Key + marie, Key + friend})
	return rapid.Custom(func(t *rapid.T) (p Policy) {
		p.Unsigned = rapid.Bool().Draw(t, "unsigned")
		for range rapid.IntRange(0, 5).Draw(t, "rules") {
			r := Rule{From: rapid.SliceOfNDistinct(from, 1, 3, rapid.ID).Draw(t, "from")}
			r.Run.Any = rapid.Bool().Draw(t, "any")
			if !r.Run.Any {
				r.Run.Programs = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"/bin/a", "/bin/b"}), 0, 2, rapid.ID).Draw(t, "programs")
				r.Run.Shell, r.Run.Script = rapid.Bool().Draw(t, "shell"), rapid.Bool().Draw(t, "script")
			}
			r.Net = rapid.SampledFrom([]string{"", "none", "any"}).Draw(t, "net")
			r.Isolate = rapid.SampledFrom([]string{"", "none", "fs", "strong"}).Draw(t, "isolate")
			r.As = rapid.SampledFrom([]string{"", "self", "dynamic", "user:x"}).Draw(t, "as")
			r.Require = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"landlock", "uid", "net"}), 0, 2, rapid.ID).Draw(t, "require")
			r.Limits = Limits{MilliCPU: rapid.Int64Range(0, 3).Draw(t, "cpus") * 1000, Tasks: rapid.IntRange(0, 3).Draw(t, "tasks")}
			p.Rules = append(p.Rules, r)
		}
		return p.Here(rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"landlock", "uid", "net", "fs", "strong"}), 0, 5, rapid.ID).Draw(t, "holds"))
	})
}

func asked() *rapid.Generator[Claim] {
	return rapid.Custom(func(t *rapid.T) Claim {
		c := Claim{On: mine, Signed: rapid.Bool().Draw(t, "signed")}
		c.By = rapid.SampledFrom([]string{mine, marie, friend}).Draw(t, "by")
		c.Roles = rapid.SampledFrom([][]admission.Role{nil, {admission.Submit}, admission.AllRoles()}).Draw(t, "roles")
		c.Isolate = rapid.SampledFrom([]string{"", "fs", "strong", "never heard of"}).Draw(t, "isolate")
		c.Resources.MilliCPU = rapid.Int64Range(0, 3).Draw(t, "needs") * 1000
		c.Run = rapid.SampledFrom([]*taskstate.Run{process("/bin/a"), process("/bin/c"), {Noop: &taskstate.Noop{}}, {Process: &taskstate.Process{Shell: true, Command: []string{"/bin/a"}}}}).Draw(t, "run")
		return c
	})
}

// What the coordinator reads in the digest is what the machine decides, but for what runs there.
func TestADigestDecidesAsThePolicyDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, c := drawn().Draw(t, "policy"), asked().Draw(t, "claim")
		load := Load{Tasks: rapid.IntRange(0, 3).Draw(t, "load")}
		_, a := Decide(p, c, load)
		if _, b := Decide(p.Digest(), c, load); a.No() != b.No() || a.Full != b.Full {
			t.Fatalf("the policy says %+v, its digest %+v", a, b)
		}
	})
}

func TestWhatIsLetInIsHeldToAllThatItsRuleAndItsJobName(t *testing.T) {
	rank := func(s string) int { return slices.Index([]string{"none", "fs", "strong"}, max(s, "")) }
	rapid.Check(t, func(t *rapid.T) {
		p, c := drawn().Draw(t, "policy"), asked().Draw(t, "claim")
		held, why := Decide(p, c, Load{})
		if why.No() {
			return
		}
		if !c.Signed && !p.Unsigned {
			t.Fatal("an unsigned job is let in")
		}
		if held.As != taskstate.AsSelf && !slices.Contains(p.Holds, "uid") || held.Net == "none" && !slices.Contains(p.Holds, "net") ||
			held.Isolate != "none" && !slices.Contains(p.Holds, held.Isolate) {
			t.Fatalf("%+v is promised where only %v holds", held, p.Holds)
		}
		for _, r := range held.Require {
			if !slices.Contains(p.Holds, r) {
				t.Fatalf("%s is required and does not hold", r)
			}
		}
		if c.Isolate != "" && rank(held.Isolate) < rank(c.Isolate) {
			t.Fatalf("the job asks for %s and gets %s", c.Isolate, held.Isolate)
		}
	})
}

func TestARuleAtTheEndChangesNothingThatOneBeforeDecided(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, c := drawn().Draw(t, "policy"), asked().Draw(t, "claim")
		before, why := Decide(p, c, Load{})
		p.Rules = append(p.Rules, Rule{From: []string{Key + marie, Key + friend, Self}, Run: Run{Any: true}})
		after, now := Decide(p, c, Load{})
		if !why.No() && (now.No() || fmt.Sprint(before) != fmt.Sprint(after)) {
			t.Fatalf("%+v became %+v, %+v", before, after, now)
		}
	})
}

func TestAKeyThatNoRuleNamesHasNothingRun(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, c := drawn().Draw(t, "policy"), asked().Draw(t, "claim")
		c.By, c.Roles = "12D3KooWstranger", nil
		if held, why := Decide(p, c, Load{}); !why.No() {
			t.Fatalf("a stranger runs under %+v", held)
		}
	})
}

func TestAddingAndRemovingLeavesWhatPeopleWrote(t *testing.T) {
	text := `# mine
unsigned: allow # for a while
rules:
  # the lab
  - from: [self, key:` + marie + `]
    run: any # whatever
  # last
  - from:
      - role:admin
      - key:` + marie + `
    run:
      process: [/bin/true]
on_revoke: finish
`
	added, err := Add([]byte(text), friend, []string{"/usr/bin/ffmpeg"})
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(text, "\n") {
		if !strings.Contains(string(added), line) {
			t.Errorf("%q is gone", line)
		}
	}
	if _, why := Decide(read(t, string(added)), claim(friend, process("/usr/bin/ffmpeg")), Load{}); why.No() {
		t.Error(why.Text)
	}
	back, had, err := Remove(added, friend)
	if err != nil || !had || string(back) != text {
		t.Errorf("%v %v\n%s", had, err, back)
	}
	back, had, err = Remove(back, marie)
	if err != nil || !had || strings.Contains(string(back), marie) || !strings.Contains(string(back), "# the lab") {
		t.Errorf("%v %v\n%s", had, err, back)
	}
	if _, had, err = Remove(back, marie); had || err != nil {
		t.Errorf("removed twice: %v %v", had, err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(Text(true, true))
	f.Add(Text(false, false))
	f.Add([]byte("rules:\n- from: [self]\n  run: {process: [/bin/a]}\n  limits: {cpus: 1, time: 1h}\n  read: [/x]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := Read(text)
		if err != nil {
			if _, ok := errors.AsType[*Error](err); !ok {
				t.Errorf("an error without a place: %v", err)
			}
			return
		}
		if added, err := Add(text, friend, nil); err == nil {
			if q := read(t, string(added)); len(q.Rules) != len(p.Rules)+1 {
				t.Errorf("%d rules became %d", len(p.Rules), len(q.Rules))
			}
		}
	})
}
