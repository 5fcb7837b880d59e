//go:build !windows

package testnet_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	cdp "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/testnet"
)

// browser is somebody with a browser in front of the page of one peer.
type browser struct {
	*testing.T
	ctx context.Context

	mu   sync.Mutex
	said []string // errors of the browser's console
}

// pictures is a folder for what the browser shows, if somebody wants to look.
const pictures = "COVEY_PICTURES"

// browse opens a peer's page as `peer web` does.
func browse(t *testing.T, net *testnet.Net, k int) *browser {
	t.Helper()
	b := newBrowser(t)
	b.enter(net, k, api.AdminScope)
	return b
}

// enter opens a peer's page with a token for a scope, and tells where it is.
func (b *browser) enter(net *testnet.Net, k int, scope api.Scope) (url string) {
	b.Helper()
	link, err := net.Client(k).Tokens().OpenWeb(timed(b.T), api.TokenRequest{Scope: scope, Expires: 3600})
	if err != nil {
		b.Fatal(err)
	}
	b.do(chromedp.Navigate("about:blank"), chromedp.Navigate(link.URL+"#code="+link.Code))
	return link.URL
}

// newBrowser starts a browser that shows nothing yet.
func newBrowser(t *testing.T, more ...chromedp.ExecAllocatorOption) *browser {
	t.Helper()
	long.Test(t)
	var program string
	for _, name := range []string{"chromium-headless-shell", "headless-shell", "chromium", "google-chrome"} {
		if program == "" {
			program, _ = exec.LookPath(name)
		}
	}
	if program == "" {
		t.Skip("no browser: apt-get install --no-install-recommends chromium-headless-shell")
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.WSURLReadTimeout(patience))
	opts = append(opts, more...)
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), opts...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &browser{T: t, ctx: ctx}
	b.do(chromedp.EmulateViewport(1360, 900))
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		for m, err := range chromedp.Console(ctx) {
			if err != nil {
				return
			}
			if (m.IsException() || m.Type == "error") && !strings.Contains(m.Text, "status of 400") { // a dry run of what is half written
				b.mu.Lock()
				b.said = append(b.said, m.String())
				b.mu.Unlock()
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-heard })
	return b
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.Fatal(err)
	}
}

// js is what an expression of the page is, as text.
func (b *browser) js(expression string) string {
	b.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[string]("Promise.resolve("+expression+").then(String)", chromedp.EvalAwaitPromise))
	if err != nil {
		b.Fatalf("%s: %v", expression, err)
	}
	return v
}

// sees waits until an expression is true.
func (b *browser) sees(what, expression string) {
	b.Helper()
	eventually(b.T, "the page shows "+what, func() (bool, string) {
		return b.js("!!("+expression+")") == "true", b.js("document.querySelector('main')?.innerText")
	})
}

// says waits until the sentence on top has some words.
func (b *browser) says(words string) {
	b.Helper()
	b.sees("the sentence "+words, fmt.Sprintf("document.querySelector('h1')?.innerText.includes(%q)", words))
}

func (b *browser) click(selector string) {
	b.Helper()
	b.sees(selector, fmt.Sprintf("document.querySelector(%q) && !document.querySelector(%[1]q).disabled", selector))
	b.js(fmt.Sprintf("document.querySelector(%q).click()", selector))
}

func (b *browser) at(hash string) {
	b.Helper()
	b.js(fmt.Sprintf("location.hash = %q", hash))
}

func (b *browser) scheme(name string) {
	b.Helper()
	b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
		return err
	}))
}

func (b *browser) picture(name string) {
	b.Helper()
	dir := os.Getenv(pictures)
	if dir == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644)
	}
	if err != nil {
		b.Error(err)
	}
}

// accessible checks what is shown with axe.
func (b *browser) accessible(what string) {
	b.Helper()
	if b.js("typeof axe") == "undefined" {
		axe, err := os.ReadFile("testdata/axe/axe.min.js")
		if err != nil {
			b.Fatal(err)
		}
		b.js("(() => {" + string(axe) + "\n})()")
	}
	found := b.js(`axe.run().then((r) => JSON.stringify(r.violations.map((v) => v.id + ": " + v.help + ": " + v.nodes.slice(0, 3).map((n) => n.html + " " + n.failureSummary).join(" | "))))`)
	var all []string
	if err := json.Unmarshal([]byte(found), &all); err != nil {
		b.Fatal(err)
	}
	if len(all) > 0 {
		b.Errorf("%s: %s", what, strings.Join(all, "\n"))
	}
}

// silent checks that nothing went wrong in the browser.
func (b *browser) silent() {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.said {
		b.Error("console: ", s)
	}
}

func pageNet(t *testing.T) *testnet.Net {
	t.Helper()
	return pagePeers(t, 3)
}

func pagePeers(t *testing.T, n int) *testnet.Net {
	t.Helper()
	net, err := testnet.Start(timed(t), testnet.Config{Dir: t.TempDir(), N: n, Exe: exe(t), UpArgs: []string{"--cpus", "2"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(net.Quit)
	ready(t, net)
	return net
}

// frames is a job file whose tasks print something, of which some fail.
const frames = `name: render
array: 1-30
run:
  process:
    shell: true
    command: 'echo "frame $COVEY_SLOT"; [ $((COVEY_SLOT % 7)) != 0 ] || { echo "no such texture" >&2; exit 3; }'
resources: {cpus: 0.2}
`

// ticks is one that goes on.
const ticks = "name: long\ncount: 4\nrun: {process: {shell: true, command: 'while echo tick; do sleep 0.2; done'}}\nresources: {cpus: 0.1}\n"

// hand submits a job file as another program would.
func hand(t *testing.T, net *testnet.Net, file string) string {
	t.Helper()
	r, err := net.Client(1).Raw(timed(t), "POST", "/v1/jobs", api.JobFileType, strings.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var s api.Submitted
	if err := json.NewDecoder(r).Decode(&s); err != nil {
		t.Fatal(err)
	}
	return s.ID
}

// crowd has the page believe that there are as many peers as window.crowd says, each linked to
// each, one pair over a relay.
const crowd = `(() => { const ask = window.fetch; window.fetch = async (path, how) => {
	const r = await ask(path, how), as = (v) => new Response(JSON.stringify(v)), v = window.crowd && ['/v1/peers', '/v1/links'].includes(path) && await r.json();
	if (!v) return r;
	if (path === '/v1/peers') {
		while (v.peers.length < window.crowd) v.peers.push({ ...v.peers.find((p) => !p.self), id: 'p' + v.peers.length, name: 'peer' + v.peers.length, coordinator: false });
		window.ids = v.peers.map((p) => p.id);
	} else v.links = (window.ids || []).flatMap((from) => window.ids.filter((to) => to !== from).map((to) => ({ from, to, path: [from, to].every((id) => ['p5', 'p9'].includes(id)) ? 'relayed' : 'direct', rtt: 0 })));
	return as(v);
}; })()`

func TestThePageShowsEachViewInBothSchemesOnWideAndNarrowScreens(t *testing.T) {
	net := pageNet(t)
	b := browse(t, net, 1)
	id := hand(t, net, frames)
	hand(t, net, "name: train-gpu\nrun: {process: {command: [\"true\"]}}\nconstraints: [\"peer.label.gpu == a100\"]\n")
	hand(t, net, "name: service\ntype: global\nrun: {process: {command: [sleep, \"1000\"]}}\nresources: {cpus: 0.1}\n")
	b.says("All 3 peers are here. 1 job runs on")
	if at := b.js("location.href"); strings.Contains(at, "code") {
		t.Errorf("the code stays in the address: %s", at)
	}
	if cookie := b.js("document.cookie"); cookie != "" {
		t.Errorf("a cookie: %s", cookie)
	}
	views := []struct{ name, hash, says, shows string }{
		{"cluster", "#/", "All 3 peers", "document.querySelectorAll('svg.cluster a').length === 3 && document.querySelectorAll('svg.cluster line.direct').length === 3 && [...document.querySelectorAll('svg.cluster text.sub')].filter((t) => t.textContent.match(/^\\d+ % busy/)).length === 3 && document.querySelectorAll('ul.jobs > li').length === 3"},
		{"jobs", "#/jobs", "1 failed", "document.querySelectorAll('ul.jobs > li').length === 3"},
		{"job", "#/job/" + id, "26 of 30 done. 4 failed", "document.querySelectorAll('canvas').length === 2 && document.querySelector('[aria-label=\"What failed\"]')?.innerText.match(/exit 3[^]*no such texture/) && document.body.innerText.includes('Slowest')"},
		{"peer", "#/peer/" + net.ID(1), "It takes tasks", "document.body.innerText.includes('processors') && document.querySelector('[aria-label^=\"Its machine\"] p').innerText.match(/\\d % busy.*in use, load average/) && document.querySelector('[aria-label=\"Runs there\"] li')?.innerText.match(/service.*\\s.*task/) && document.querySelector('[aria-label=\"Is it well?\"] summary')?.innerText.match(/as it should be/)"},
		{"story", "#/story", "", "['was elected', 'was admitted', 'render: failed'].every((s) => document.querySelector('ul.story').innerText.includes(s))"},
		{"run", "#/run", "would", "document.querySelector('textarea')"},
	}
	for _, size := range [][2]int64{{1360, 900}, {360, 740}} {
		b.do(chromedp.EmulateViewport(size[0], size[1]))
		for _, scheme := range []string{"light", "dark"} {
			b.scheme(scheme)
			for _, v := range views {
				what := fmt.Sprintf("%s-%s-%d", v.name, scheme, size[0])
				b.at(v.hash)
				b.says(v.says)
				b.sees(v.name, v.shows)
				b.accessible(what)
				b.picture(what)
				if wide := b.js("document.documentElement.scrollWidth"); wide != fmt.Sprint(size[0]) {
					t.Errorf("%s is %s pixels wide", what, wide)
				}
				if ink := b.js("getComputedStyle(document.body).backgroundColor"); (ink == "rgb(17, 20, 15)") != (scheme == "dark") {
					t.Errorf("%s has the background %s", what, ink)
				}
			}
		}
	}
	b.at("#/job/" + id)
	b.sees("the grid in colours", `(() => { const c = document.querySelector('canvas'); if (!c) return false;
		const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data, seen = new Set();
		for (let i = 0; i < d.length; i += 4) if (d[i + 3] === 255) seen.add(d[i] + ' ' + d[i + 1] + ' ' + d[i + 2]);
		return seen.has('111 184 114') && seen.has('240 113 95'); })()`) // complete and failed, as light-dark() resolves them
	b.do(chromedp.KeyEvent("t"))
	b.sees("the pictures as tables", "!document.querySelector('canvas') && [...document.querySelectorAll('td')].some((d) => d.innerText.includes('complete'))")
	b.accessible("job as tables")
	b.at("#/")
	b.sees("the links in words", "[...document.querySelectorAll('td')].filter((d) => d.innerText === 'all others').length === 3")
	b.accessible("cluster as tables")
	b.do(chromedp.KeyEvent("t"))
	b.do(chromedp.EmulateViewport(1360, 900))
	b.js(crowd)
	for _, n := range []int{24, 200} {
		b.at("#/jobs")
		b.sees("the jobs", "document.getElementById('find')")
		b.js(fmt.Sprintf("(window.crowd = %d, import('/api.js').then((m) => m.live.refresh()))", n)) // not in five seconds
		b.at("#/")
		b.says(fmt.Sprintf("All %d peers", n))
		if n <= 24 {
			b.sees("each link once", "document.querySelectorAll('svg.cluster line.direct').length === 275 && document.querySelectorAll('svg.cluster line.relayed').length === 1")
		} else {
			b.sees("tiles", "document.querySelectorAll('.tiles a').length === 200 && !document.querySelector('svg.cluster')")
		}
		b.picture(fmt.Sprintf("crowd-%d", n))
	}
	b.accessible("many peers")
	b.do(chromedp.KeyEvent("?"))
	b.sees("the keys", "document.querySelector('dialog[open]')?.innerText.includes('Esc')")
	b.accessible("keys")
	b.silent()
}

func TestWhatIsDoneOnThePageIsDone(t *testing.T) {
	net := pageNet(t)
	b := browse(t, net, 2)
	b.says("All 3 peers")
	b.do(chromedp.KeyEvent("r"))
	write := func(file string) {
		b.js(fmt.Sprintf("(() => { const t = document.getElementById('file'); t.value = %q; t.dispatchEvent(new Event('input', {bubbles: true})); })()", file))
	}
	b.sees("a place for a job file", "document.getElementById('file')")
	write("name: wrong\nrum: {}\n")
	b.says("cannot be run yet")
	b.sees("line and column", "document.querySelector('.errors')?.innerText.includes('line 2, 1')")
	b.accessible("errors")
	b.click("#form")
	fill := func(field, text string) {
		b.sees("the form", "document.getElementById('form-"+field+"')")
		b.js(fmt.Sprintf("(() => { const t = document.getElementById('form-%s'); t.value = %q; t.dispatchEvent(new Event('input', {bubbles: true})); })()", field, text))
	}
	fill("array", "1-12")
	fill("command", `echo "it's: $COVEY_ITEM"`)
	fill("cpus", "0.1")
	fill("memory", "64MiB")
	b.says("12 tasks would go to 3 peers")
	if file := b.js("document.getElementById('file').value"); !strings.Contains(file, "array: 1-12\n") || !strings.Contains(file, `command: "echo \"it's: $COVEY_ITEM\""`) || !strings.Contains(file, "resources: {cpus: 0.1, memory: 64MiB}") {
		t.Errorf("the form writes %s", file)
	}
	b.accessible("the form")
	b.picture("form")
	b.click("#form")
	write(frames)
	b.says("30 tasks would go to 3 peers")
	b.click("#submit")
	b.sees("the job", "location.hash.startsWith('#/job/')")
	b.says("4 failed")
	b.click("#retry")
	b.sees("what came of it", "document.querySelector('[role=status]').innerText.includes('4 slots got another attempt')")

	id := hand(t, net, ticks)
	b.at("#/job/" + id)
	b.says("has done 0 of 4")
	b.do(chromedp.KeyEvent("l"))
	b.sees("live output", "document.querySelector('pre.log')?.innerText.split('tick').length > 8")
	b.accessible("logs")
	b.click("#logs")
	b.click("#cancel")
	b.sees("a question", "document.querySelector('dialog[open]')?.innerText.includes('Stop long')")
	b.click("dialog[open] button.bad")
	b.says("was stopped")

	b.downloads(net)

	b.at("#/peer/" + net.ID(3))
	b.click("#drain")
	b.click("dialog[open] button")
	b.says("It is drained")
	b.click("#activate")
	b.says("It takes tasks")
	b.silent()
}

// downloads checks that what a job left comes to the browser's machine as it is.
func (b *browser) downloads(net *testnet.Net) {
	b.Helper()
	dir := b.TempDir()
	b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, cdp.SetDownloadBehavior, cdp.SetDownloadBehaviorParams{Behavior: cdp.SetDownloadBehaviorBehaviorAllow, DownloadPath: dir})
		return err
	}))
	id := hand(b.T, net, "name: leaves\nrun: {process: {shell: true, command: 'mkdir out; : >out/empty; seq 400000 >out/numbers.txt'}}\noutputs: [out]\n")
	b.at("#/job/" + id)
	b.says("is complete")
	b.js(`(() => { const ask = window.fetch; window.fetch = async (path, how) => {
		const r = await ask(path, how);
		if (!path.includes('/files?')) return r;
		const v = await r.json();
		v.files.push({ ...v.files.find((f) => f.size), path: 'out/large', size: 300 * 2 ** 20 });
		return new Response(JSON.stringify(v));
	}; })()`)
	b.click("[aria-label=Files] h2 button")
	b.sees("a line and no button for what is too large", `(() => { const r = [...document.querySelectorAll('[aria-label=Files] tr')].find((r) => r.innerText.includes('out/large'));
		return r?.innerText.includes('peer get') && !r.querySelector('button'); })()`)
	b.accessible("files")
	b.picture("files")
	var numbers strings.Builder
	for i := range 400_000 {
		fmt.Fprintln(&numbers, i+1)
	}
	for name, want := range map[string]string{"numbers.txt": numbers.String(), "empty": ""} {
		b.click(fmt.Sprintf("[aria-label='Download out/%s of task 1']", name))
		eventually(b.T, name+" is downloaded", func() (bool, string) {
			got, err := os.ReadFile(filepath.Join(dir, name))
			return err == nil && string(got) == want, fmt.Sprintf("%d bytes of %d, %v; the page says: %s", len(got), len(want), err, b.js("document.querySelector('[role=status]').innerText"))
		})
	}
}

func TestAKillIsSeenOnThePageWhileItIsLookedAt(t *testing.T) {
	net := pageNet(t)
	b := browse(t, net, 2)
	b.says("All 3 peers are here")
	links := func(direct, away int) string {
		return fmt.Sprintf("document.querySelectorAll('line.direct').length === %d && document.querySelectorAll('line.away').length === %d", direct, away)
	}
	b.sees("all links", links(3, 0))
	if err := net.Kill(3); err != nil {
		t.Fatal(err)
	}
	b.says("cannot be reached. The other 2 peers go on")
	b.sees("that its link is gone", links(1, 1))
	b.accessible("a peer that is away")
	b.picture("killed")
	b.at("#/peer/" + net.ID(3))
	b.sees("what it can say of one that is away", "document.querySelector('[aria-label=\"Is it well?\"] li .bad') && document.querySelector('.checks').innerText.match(/it cannot be reached/)")
	b.accessible("a peer that is away, looked at")
	b.at("#/")
	if err := net.Restart(timed(t), 3); err != nil {
		t.Fatal(err)
	}
	b.says("All 3 peers are here")
	b.silent()
}

func TestAHiddenPageAsksNothing(t *testing.T) {
	net := pageNet(t)
	b := browse(t, net, 1)
	b.says("All 3 peers")
	b.js(`(() => { window.asked = 0; const f = window.fetch; window.fetch = (...a) => { window.asked++; return f(...a); };
		Object.defineProperty(document, 'hidden', { get: () => window.away, configurable: true });
		window.away = true; document.dispatchEvent(new Event('visibilitychange')); })()`)
	hand(t, net, frames)
	b.do(chromedp.Sleep(2500 * time.Millisecond))
	if asked := b.js("window.asked"); asked != "0" {
		t.Errorf("a hidden page asked %s times", asked)
	}
	b.js("(() => { window.away = false; document.dispatchEvent(new Event('visibilitychange')); })()")
	b.sees("what happened meanwhile", "document.querySelector('ul.jobs')?.innerText.includes('render')")
}
