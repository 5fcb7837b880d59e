//go:build !windows

package testnet_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/coveyproject/covey/testnet"
)

// measured has a page note when it has drawn something of a view, and how much came for it.
const measured = `(() => { const look = () => { if (document.querySelector('main section canvas, main section svg, main .tiles') || window.enough?.()) window.shown = performance.now(); else requestAnimationFrame(look); }; look(); })()`

// sizes is what a page has loaded, in bytes: its own files, and what the API answered.
const sizes = `JSON.stringify(performance.getEntriesByType('resource').reduce((n, e) => { n[e.name.includes('/v1/') ? 1 : 0] += e.encodedBodySize; return n; }, [0, 0]))`

// TestHowFastThePageIs says it, of real peers: `COVEY_MEASURE=1 go test -tags long ./testnet -run
// HowFast -v`. It judges nothing: what a busy machine does says little.
func TestHowFastThePageIs(t *testing.T) {
	if os.Getenv("COVEY_MEASURE") == "" {
		t.Skip("COVEY_MEASURE is not set")
	}
	net := pageNet(t)
	b := browse(t, net, 1)
	b.says("All 3 peers")
	b.each(measured)
	id := hand(t, net, frames)
	waits := hand(t, net, "name: million\narray: 1-1000000\nrun: {process: {command: [\"true\"]}}\nresources: {cpus: 64}\n")
	url := b.js("location.origin")
	for _, v := range []struct{ name, hash string }{{"cluster", "#/"}, {"a job of 30 tasks", "#/job/" + id}, {"a job of a million", "#/job/" + waits}} {
		var took []float64
		var bytes string
		for range 9 {
			b.do(chromedp.Navigate("about:blank"), chromedp.Navigate(url+"/"+v.hash))
			b.sees(v.name, "window.shown")
			took = append(took, b.number("window.shown"))
			bytes = b.js(sizes)
		}
		slices.Sort(took)
		t.Logf("%s: drawn %.0f ms after the request (median of %d; %.0f to %.0f), bytes of the page and of answers %s", v.name, took[len(took)/2], len(took), took[0], took[len(took)-1], bytes)
	}
	b.js(crowd)
	for _, n := range []int{24, 200} {
		b.at("#/jobs")
		b.sees("the jobs", "document.getElementById('find')")
		b.js(fmt.Sprintf("(window.crowd = %d, import('/api.js').then((m) => m.live.refresh()))", n))
		b.js("(window.began = performance.now(), location.hash = '#/', 0)")
		b.says(fmt.Sprintf("All %d peers", n))
		t.Logf("%d peers: drawn in %.1f ms", n, b.number("new Promise((f) => { const t = performance.now(); import('/api.js').then((m) => { m.live.tell(); requestAnimationFrame(() => setTimeout(() => f(performance.now() - t))); }); })"))
	}
}

// number is what an expression of the page is.
func (b *browser) number(expression string) (n float64) {
	b.Helper()
	if err := json.Unmarshal([]byte(b.js(expression)), &n); err != nil {
		b.Fatal(err)
	}
	return n
}

// scenes is what README's picture shows: some of it fails, and a machine is lost meanwhile.
const scenes = `name: render
array: 1-320
run:
  process:
    shell: true
    command: 'sleep 0.$((COVEY_SLOT * 7 % 9 + 1)); [ $((COVEY_SLOT % 41)) != 0 ] || { echo "scene $COVEY_SLOT: no such texture: brick.png" >&2; exit 3; }; sleep 0.$((COVEY_SLOT % 7))'
resources: {cpus: 0.25}
`

// TestThePictureOfREADME is what docs/picture.sh runs.
func TestThePictureOfREADME(t *testing.T) {
	path := os.Getenv("COVEY_PICTURE")
	if path == "" {
		t.Skip("COVEY_PICTURE is not set")
	}
	net, err := testnet.Start(timed(t), testnet.Config{Dir: t.TempDir(), N: 4, Exe: exe(t), UpArgs: []string{"--cpus", "2"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(net.Quit)
	ready(t, net)
	b := browse(t, net, 1)
	b.do(chromedp.EmulateViewport(1200, 800))
	b.scheme("light")
	b.says("All 4 peers")
	b.at("#/job/" + hand(t, net, scenes))
	b.sees("that much is done", "Number(document.querySelector('h1')?.innerText.match(/has done (\\d+)/)?.[1]) > 110")
	if err := net.Kill(4); err != nil {
		t.Fatal(err)
	}
	b.sees("that more is done, without p4", "Number(document.querySelector('h1')?.innerText.match(/has done (\\d+)/)?.[1]) > 235 && document.body.innerText.includes('brick.png')")
	b.settles()
	shot, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(path, shot, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	const most = 150 << 10
	if len(shot) > most {
		t.Errorf("%d bytes are too many for README: at most %d", len(shot), most)
	}
}
