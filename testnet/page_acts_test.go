//go:build !windows

package testnet_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/node/api"
)

// picked clicks where something is in a canvas: points right and down of its corner.
func (b *browser) picked(canvas string, x, y int) {
	b.Helper()
	b.sees(canvas, fmt.Sprintf("document.querySelector(%q)?.clientWidth", canvas))
	b.js(fmt.Sprintf("(() => { const c = document.querySelector(%q), r = c.getBoundingClientRect(); c.dispatchEvent(new MouseEvent('click', { bubbles: true, clientX: r.left + %d, clientY: r.top + %d })); })()", canvas, x, y))
}

// types puts text into a field, as somebody types it.
func (b *browser) types(field, text string) {
	b.Helper()
	b.sees(field, fmt.Sprintf("document.querySelector(%q)", field))
	b.js(fmt.Sprintf("(() => { const t = document.querySelector(%q); t.value = %q; t.dispatchEvent(new Event(t.tagName === 'SELECT' ? 'change' : 'input', { bubbles: true })); })()", field, text))
}

func TestWhatElseIsDoneOnThePageIsDone(t *testing.T) {
	long.Test(t)
	net := pagePeers(t, 1)
	b := browse(t, net, 1)
	b.says("is alone here")
	id := hand(t, net, frames)
	waits := hand(t, net, "name: waits\nrun: {process: {command: [\"true\"]}}\nconstraints: [\"peer.label.gpu == a100\"]\n")

	// Jobs: the key for them, a word, a state.
	jobs := func(names ...string) {
		t.Helper()
		b.sees(strings.Join(names, " and "), fmt.Sprintf("[...document.querySelectorAll('ul.jobs b')].map((e) => e.innerText).sort().join() === %q", strings.Join(names, ",")))
	}
	b.do(chromedp.KeyEvent("/"))
	b.sees("where to write", "document.activeElement.id === 'find'")
	jobs("render", "waits")
	b.types("#find", "gpu") // of why it waits
	jobs("waits")
	b.types("#find", "rend")
	jobs("render")
	b.types("#find", "")
	b.types("[aria-label='Which jobs']", "failed")
	jobs("render")
	b.types("[aria-label='Which jobs']", "now")
	jobs("waits")
	b.js("document.activeElement.blur()")

	// Keys.
	for _, k := range []struct{ key, shows string }{
		{"s", "location.hash === '#/story' && document.querySelector('ul.story')"},
		{"c", "location.hash === '#/' && document.querySelector('svg.cluster')"},
		{"t", "!document.querySelector('svg.cluster') && document.querySelector('td')"},
		{"t", "document.querySelector('svg.cluster')"},
		{"j", "location.hash === '#/jobs' && document.getElementById('find')"},
		{"u", "location.hash === '#/'"},
		{"?", "document.querySelector('dialog[open]')"},
		{"s", "location.hash === '#/'"}, // of no use while the keys are shown
		{"\x1b", "!document.querySelector('dialog[open]')"},
		{"r", "location.hash === '#/run' && document.getElementById('file')"},
	} {
		b.do(chromedp.KeyEvent(k.key))
		b.sees("what is behind "+k.key, k.shows)
	}

	// An error's line.
	b.types("#file", "name: wrong\nrum: {}\n")
	b.click(".errors button")
	b.sees("the line", "document.activeElement.id === 'file' && document.getElementById('file').selectionStart === 'name: wrong\\n'.length")
	b.js("document.activeElement.blur()")

	// A job's cells and lanes, and any of its tasks by number.
	b.at("#/job/" + id)
	b.says("has failed")
	printed := func(what, head, text string) {
		t.Helper()
		b.sees(what, fmt.Sprintf("document.querySelector('[aria-label=Logs] h2')?.innerText.startsWith(%q) && document.querySelector('pre.log').innerText.includes(%q)", head, text))
	}
	b.picked("[aria-label='Tasks by slot'] canvas", 9, 9)
	printed("what the first cell's task printed", "What task 1 prints", "frame 1\n")
	b.sees("a lane", "document.querySelector(\"[aria-label='Where and when'] canvas\")")
	b.picked("[aria-label='Where and when'] canvas", 77, 1)
	b.sees("what a bar's task printed", "document.querySelector('[aria-label=Logs] h2')?.innerText.match(/^What task \\d+\\.1 prints/) && document.querySelector('pre.log').innerText.includes('frame')")
	b.js("(document.getElementById('task').value = '21', document.getElementById('task').focus())")
	b.do(chromedp.KeyEvent("\r"))
	printed("what a task printed that is asked for by its number", "What task 21 prints", "no such texture")
	b.click("#logs")
	b.js("document.activeElement.blur()")

	// Once more.
	b.click("a[href='#/run/" + id + "']")
	b.sees("its file", "document.getElementById('file')?.value.includes('name: render')")
	b.says("tasks would go to 1 peer")
	b.click("#submit")
	b.sees("another job", fmt.Sprintf("location.hash.startsWith('#/job/') && !location.hash.includes(%q)", id))
	b.says("has failed")

	// A service and its update.
	service := func(count int) string {
		return fmt.Sprintf("name: web\ntype: service\ncount: %d\nrun: {process: {command: [sleep, \"%d\"]}}\nresources: {cpus: 0.1}\n", count, 1000+count)
	}
	b.at("#/run")
	b.types("#file", service(1))
	b.says("1 task would go to")
	b.click("#submit")
	b.says("web runs 1 of 1")
	b.at("#/run")
	b.types("#file", service(2))
	b.says("This is an update, version 2")
	b.sees("what changes", "['count', 'run'].every((s) => document.querySelector('[aria-label=Changes] tbody')?.innerText.includes(s)) && document.getElementById('submit').innerText === 'Update'")
	b.click("#submit")
	b.says("web runs 2 of 2 tasks, version 2")

	// A schedule, now.
	b.at("#/job/" + hand(t, net, "name: nightly\nrun: {process: {command: [\"true\"]}}\nresources: {cpus: 0.1}\nschedule: \"0 3 1 1 *\"\n"))
	b.click("#trigger")
	b.sees("what came of it", "document.querySelector('[role=status]').innerText.includes('was started')")
	b.at("#/jobs")
	b.types("[aria-label='Which jobs']", "complete")
	b.sees("the run", "[...document.querySelectorAll('ul.jobs b')].some((e) => e.innerText.startsWith('nightly'))")

	// A peer that takes no more, and again.
	b.at("#/peer/" + net.ID(1))
	b.click("#pause")
	b.says("It takes no new tasks")
	b.click("#activate")
	b.says("It takes tasks")
	b.click("#pause")
	b.says("It takes no new tasks")

	// Who may only look has nothing to press that changes something.
	b.enter(net, 1, api.ReadScope)
	for hash, shows := range map[string]string{
		"#/job/" + id: "document.querySelector('h1')?.innerText.includes('render has failed')", "#/job/" + waits: "document.querySelector('h1')?.innerText.includes('waits')",
		"#/peer/" + net.ID(1): "document.querySelector('h1')?.innerText.includes('It takes no new tasks')", "#/run": "document.querySelector('h1')?.innerText.includes('may look')",
	} {
		b.at(hash)
		b.sees("the same to who only looks", shows)
		if has := b.js("['cancel', 'retry', 'drain', 'pause', 'activate', 'submit', 'file'].filter((id) => document.getElementById(id)).join() + [...document.querySelectorAll('a[href^=\"#/run\"]')].map((a) => a.innerText)"); has != "" {
			t.Errorf("who may only look has at %s: %s", hash, has)
		}
	}
	b.at("#/job/" + id)
	b.click("#logs")
	printed("what its tasks printed", "What its tasks print", "frame 1\n")
	b.accessible("to who only looks")
	b.silent()
}

func TestManyTasksAreToldAsTextWithTheirTimesAndFailures(t *testing.T) {
	answers := madeUp()
	dense := api.Lane{Peer: "nas", PeerName: "nas", Tasks: 9000, Busy: make([]float64, 60), Bad: make([]int, 60)}
	for i := 10; i < 50; i++ {
		dense.Busy[i] = 8
	}
	dense.Bad[20], dense.Bad[52] = 3, 4
	answers["/v1/jobs/4x7qrender/timeline"] = api.Timeline{From: noon.Add(-time.Minute), To: noon, Step: 1, AsOf: noon, Lanes: []api.Lane{dense}}
	b := newBrowser(t)
	b.opens(serveMadeUp(t, answers))
	b.at("#/job/4x7qrender")
	b.says("render has done")
	b.do(chromedp.KeyEvent("t"))
	b.sees("times and failures", "[...document.querySelectorAll('[aria-label=\"Where and when\"] td')].map((d) => d.innerText).join() === 'nas,9,000,7,+10 s,+53 s'")
	b.accessible("many tasks as text")
	b.silent()
}

func TestWhyATaskFailedIsFoundInThreeClicksAndWhatHappenedMeanwhileIsTold(t *testing.T) {
	long.Test(t)
	net := pagePeers(t, 1)
	b := browse(t, net, 1)
	b.says("is alone here")
	enough := filepath.Join(t.TempDir(), "enough")
	hand(t, net, fmt.Sprintf("name: paced\narray: 1-90\nrun: {process: {shell: true, command: 'sleep 0.2; [ $COVEY_ITEM -le 70 ] || until [ -e %s ]; do sleep 0.05; done'}}\nresources: {cpus: 0.5}\n", enough))
	for _, view := range []string{"#/", "#/jobs"} {
		b.at(view)
		b.sees("how fast it goes, and how long", `document.querySelector("ul.jobs .sub")?.innerText.match(/running.* a second; about \d+.* to go/)`)
	}
	if err := os.WriteFile(enough, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b.at("#/job/last")
	b.says("paced is complete")
	url := b.js("location.origin + '/'")
	b.do(chromedp.Navigate("about:blank")) // looks away
	hand(t, net, strings.Replace(frames, "name: render", "name: meanwhile", 1))
	b.do(chromedp.Navigate(url + "#/story"))
	b.says("Since you looked last")
	b.says("1 job failed")
	b.sees("a line between what is new and what is not", `(() => { const all = [...document.querySelectorAll('ul.story li')].map((l) => l.innerText), at = all.findIndex((s) => s.startsWith('older than your last look')), of = (s) => all.findIndex((l) => l.includes(s));
		return of('meanwhile: failed') >= 0 && of('meanwhile: failed') < at && at < of('paced: complete'); })()`)

	b.at("#/")
	click := func(words string) {
		t.Helper()
		find := fmt.Sprintf("[...document.querySelectorAll('main a, main button')].find((e) => e.textContent.match(/%s/))", words)
		b.sees("something with "+words, find)
		b.js(find + ".click()")
	}
	click("meanwhile[^]*failed")
	b.sees("why, in groups", "document.querySelector(\"[aria-label='What failed']\")?.innerText.match(/exit 3[^]*no such texture/)")
	click("^7\\.1$")
	b.sees("what it said last", "document.querySelector('pre.log')?.innerText.match(/frame 7[^]*no such texture/)")
	b.silent()
}
