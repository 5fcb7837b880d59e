//go:build unix

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/node/runner/sandbox"
)

// atOnce is how many scripts run at once: they wait for processes most of their time.
const atOnce = 4

func TestMain(m *testing.M) {
	if _, program := programs()[filepath.Base(os.Args[0])]; !program { // a script starts this binary by other names
		long.AtOnce(atOnce)
	}
	testscript.Main(m, programs())
}

// TestScripts drives the real program as real processes: testdata/*.txtar, each a few sentences
// about what a person sees. What the scripts can say beyond testscript's own words is in
// scriptWords.
//
// No script waits for a fixed time. A script that hangs is ended by scriptLimit.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                "testdata",
		Cmds:               scriptWords,
		Setup:              prepareScript,
		Condition:          scriptCondition,
		RequireUniqueNames: true,
		Deadline:           time.Now().Add(scriptLimit()),
	})
}

// scriptLimit bounds all scripts together, so that one that hangs is named before go test ends the
// whole: on a machine where memory is slow they take four minutes, the long ones more.
func scriptLimit() time.Duration {
	if long.Tests {
		return 25 * time.Minute
	}
	return 9 * time.Minute
}

// scriptWords are the scripts' own commands. NAME is a peer, and its data folder is $WORK/NAME.
//
//	up NAME [FLAG…]                 start a peer and wait until it says that it is ready; stdout is what it said
//	at NAME ARG…                    `peer --data $WORK/NAME ARG…`, which must end with 0 (with !: must not)
//	exits CODE NAME ARG…            the same, ending with exactly this code
//	await NAME ARG… => PATH VALUE…  repeat it with -o json until each PATH of the answer has its VALUE
//	input FILE                      the next one's stdin
//	begin LABEL NAME ARG…           start it and go on
//	printed LABEL TEXT              wait until what began has printed TEXT on stdout or stderr
//	signal SIG LABEL|NAME           INT, TERM, HUP, STOP or CONT
//	ends CODE LABEL|NAME            wait until it has ended by itself, with this code; stdout and stderr are what it printed
//	crash NAME                      kill -9
//	crashat BYTES VAR NAME          kill -9 once it has read so many bytes since it started, from the network or files; $VAR becomes how many
//	written VAR NAME                $VAR becomes how many bytes it has written since it started, to the network or files
//	stumble NAME STARTS MS          start it so often, with kill -9 that many milliseconds later each time
//	knock URL TOKEN METHOD PATH [F] ask over TCP with a token, with a job file F; stdout is the answer (with !: it must refuse)
//	zipped FILE NAME                print what a .zip holds, which must be nothing that the keys and tokens of NAME hold
//	untar FILE                      unpack what a .tar.gz holds
//	holds FILE TEXT                 wait until FILE has TEXT in it
//	json PATH VALUE                 what the last command printed has VALUE at PATH (with !: has not)
//	get VAR PATH                    $VAR becomes what is at PATH; PATH `word`: the only word it printed
//	tmpfs DIR SIZE                  a small file system of its own at DIR
//	readonly DIR                    DIR takes no writes; ! readonly DIR: again
//	fill FILE                       write until the disk is full
//	files NAME N [hard]             the peer may have N files open; hard: its supervisor, too
//	disk DIR SIZE                   a disk of its own at DIR, for the three below
//	breakdown DIR                   it has an error and goes read-only while it is written to
//	freeze DIR, thaw DIR            what is written to it waits, from one to the other
//	port VAR MULTIADDR              $VAR becomes its port
//	submitas NAME ID [JOBNAME]      submit a no-op job with this id through the API
//	readme FILE HEADING…            write the examples below a heading of README.md to FILE
//	pick PATH                       of what was printed, leave what is at PATH
//	once                            no job and no task comes to a state twice in the events that were printed, lists apart
//	golden NAME [ID=WORD…]          its shape is that of testdata/golden/NAME.json (go test -update writes it)
//
// A task that writes outside of its folder writes to $WORK, which everybody may: it has a user of
// its own where root runs the tests.
//
// A PATH is keys, list positions and `KEY=VALUE` (the list element with that), joined by dots;
// `len` is the length of a list or text; as in peers.name=two.standing. VALUE - is null, or not
// there; VALUE ~TEXT is any, of a list too, that has TEXT in it.
var scriptWords = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	"up":      scriptUp,
	"at":      scriptAt,
	"exits":   scriptExits,
	"await":   scriptAwait,
	"input":   scriptInput,
	"begin":   scriptBegin,
	"printed": scriptPrinted,
	"signal":  scriptSignal,
	"ends":    scriptEnds,
	"crash":   scriptCrash,
	"crashat": scriptCrashAt,
	"written": scriptWritten,
	"stumble": scriptStumble,
	"untar":   scriptUntar,
	"holds":   scriptHolds,
	"json":    scriptJSON,
	"get":     scriptGet,
	"pick":    scriptPick,
	"golden":  scriptGolden,
	"once":    scriptOnce,
	"tmpfs":   scriptTmpfs,
	"port":    scriptPort,
	"fill":    scriptFill,
	"disk":    scriptDisk,
	"files":   scriptLimitFiles,

	"readonly":  scriptReadOnly,
	"breakdown": onDisk("breakdown", (*disk).breakDown),
	"freeze":    onDisk("freeze", (*disk).freeze),
	"thaw":      onDisk("thaw", (*disk).thaw),
	"submitas":  scriptSubmitAs,
	"readme":    scriptReadme,
	"zipped":    scriptZipped,
	"knock":     scriptKnock,
}

func prepareScript(env *testscript.Env) error {
	p := &processes{work: env.WorkDir, running: map[string]*process{}, disks: map[string]*disk{}}
	env.Values[processesKey{}] = p
	env.Defer(p.endAll)
	env.Setenv("NO_COLOR", "1")
	env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, "state"))
	data, err := filepath.Abs("testdata")
	env.Setenv("TESTDATA", data)
	return errors.Join(err, openToTasks(env))
}

// openToTasks lets tasks write to the script's folder and execute its programs: those of a peer
// that root runs are other users'.
func openToTasks(env *testscript.Env) error {
	tmp := os.TempDir()
	for _, dir := range append(filepath.SplitList(env.Getenv("PATH")), env.WorkDir) {
		for ; strings.HasPrefix(dir, tmp+"/"); dir = filepath.Dir(dir) {
			if err := os.Chmod(dir, 0o755); err != nil {
				return err
			}
		}
	}
	return os.Chmod(env.WorkDir, 0o777)
}

func scriptCondition(name string) (bool, error) {
	switch name {
	case "long":
		return long.Tests, nil
	case "root":
		return os.Getuid() == 0, nil
	case "strong":
		return sandbox.Try(true).Apart, nil
	case "tmpfs":
		return canMountTmpfs(), nil
	case "disk":
		return canMakeDisks(), nil
	}
	return false, nil
}
