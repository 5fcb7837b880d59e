//go:build !windows

package testnet_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/coveyproject/covey/internal/golden"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/web"
)

// noon is when all golden pictures were taken.
var noon = time.Date(2026, 11, 3, 12, 0, 0, 0, time.UTC)

// still has a page see noon, in UTC, and lets it in.
var still = fmt.Sprintf(`(() => { const D = Date, at = %d; window.Date = class extends D { constructor(...a) { if (a.length) super(...a); else super(at); } static now() { return at; } };
	localStorage.setItem("covey token", "made up"); localStorage.setItem("covey looked", at - 3600000); })()`, noon.UnixMilli())

// madeUp is what a peer would answer, by path; the query counts only where it is told.
func madeUp() map[string]any {
	ago := func(s float64) time.Time { return noon.Add(-time.Duration(s * float64(time.Second))) }
	load := func(cpu float64, memory int64) *api.Load {
		return &api.Load{CPU: &cpu, Memory: new(memory << 30), MemoryOf: 16 << 30, Average: new(8 * cpu)}
	}
	peer := func(id, standing, path string, cpus, runs float64, tasks int, l *api.Load) api.Peer {
		return api.Peer{
			ID: id, Name: id, Standing: standing, Path: path, RTT: 0.004, Availability: api.Active, CPUs: cpus, CPUsRunning: runs, Memory: 16 << 30, MemoryUsed: 3 << 30, Disk: 200 << 30,
			Tasks: tasks, Version: "0.2.0", Age: 41, Addrs: []string{"/ip4/10.0.0.7/udp/26839/quic-v1"}, Roles: []string{"worker", "submit", "voter"}, OS: "linux", Arch: "amd64", Load: l,
			Labels: map[string]string{"room": "attic"}, Offers: map[string]int64{}, OffersUsed: map[string]int64{}, Voter: true,
		}
	}
	peers := []api.Peer{
		peer("mini", "ready", "self", 4, 1.2, 3, load(0.34, 5)), peer("nas", "ready", "direct", 8, 6.4, 12, load(0.91, 9)),
		peer("pi", "unreachable", "none", 4, 0, 9, nil), peer("workshop", "ready", "relayed", 2, 0, 0, nil),
	}
	peers[0].Self, peers[1].Coordinator, peers[3].Availability = true, true, api.Drained
	peers[1].CPUsQueued = 1
	job := func(id, state string, count int, tasks map[string]int, s float64) api.Job {
		return api.Job{ID: "4x7q" + id, Name: id, Type: "batch", State: state, Count: count, Tasks: tasks, Submitted: ago(s), Submitter: "mini"}
	}
	render := job("render", "running", 600, map[string]int{"complete": 353, "failed": 10, "running": 17, "assigned": 40, "pending": 180}, 62)
	render.Pace = &api.Pace{Rate: 16.8, Left: 14}
	render.Spec = &api.Spec{Command: []string{"blender", "-b", "scene.blend", "-f", "{}"}, CPUs: 0.4, Memory: 256 << 20, Constraints: []string{"peer.os == linux"}, Outputs: []string{"frames"}}
	train := job("train-gpu", "pending", 1, map[string]int{"pending": 1}, 300)
	train.Waiting = "no suitable peer (constraint peer.label.gpu == a100 not met by 4 peers)"
	million := job("million", "complete", 20000, map[string]int{"complete": 20000}, 3000)
	million.Ended = new(ago(240))
	story := []api.StoryEvent{
		{Time: ago(31), Kind: "job", State: "superseded", Job: render.ID, Text: "render: 9 tasks given up: unreachable"},
		{Time: ago(41), Kind: "peer", State: "dead", Text: "pi: unreachable with 9 tasks that had not ended"},
		{Time: ago(9000), Kind: "coordinator", State: "elected", Text: "nas was elected coordinator (epoch 1/3)"},
		{Time: ago(9100), Kind: "peer", State: "admitted", Text: "workshop was admitted"},
	}
	links := api.Links{AsOf: noon, Silent: []string{}, Links: []api.Link{
		{From: "mini", To: "nas", Path: "direct"}, {From: "nas", To: "mini", Path: "direct"}, {From: "mini", To: "workshop", Path: "relayed"}, {From: "nas", To: "workshop", Path: "direct"},
	}}
	cells, counts := make([]byte, 600), map[string]int{"complete": 353, "failed": 10, "running": 17, "queued": 40, "pending": 180}
	for i := range cells {
		switch {
		case i < 380 && i%37 == 3:
			cells[i] = 'f'
		case i < 363:
			cells[i] = 'c'
		case i < 380:
			cells[i] = 'r'
		case i < 420:
			cells[i] = 'q'
		default:
			cells[i] = 'p'
		}
	}
	legend := map[string]string{"c": "complete", "f": "failed", "r": "running", "q": "queued", "p": "pending"}
	line := api.Timeline{From: ago(60), To: noon, AsOf: noon}
	for k, p := range peers[:3] {
		lane := api.Lane{Peer: p.ID, PeerName: p.Name}
		for i := range 30 - 8*k {
			b := api.Bar{Slot: i + 1, Attempt: 1, State: "complete", Start: float64(i/(3-k)) * 5.5, End: float64(i/(3-k))*5.5 + 5 - float64(i%3)}
			if b.End = min(b.End, 60); i%11 == 5 {
				b.State = "failed"
			}
			if b.Start < 60 {
				lane.Bars = append(lane.Bars, b)
			}
		}
		lane.Tasks = len(lane.Bars)
		line.Lanes = append(line.Lanes, lane)
	}
	failures := api.Failures{Count: 10, AsOf: noon, Groups: []api.Failure{
		{State: "failed", ExitCode: new(3), Reason: "exit", Message: "exit code 3", Last: "no such texture: brick.png", Count: 8, Examples: []api.Example{{Task: render.ID + ".7.1", Peer: "nas", PeerName: "nas"}}, Peers: []api.PeerCount{{Peer: "nas", PeerName: "nas", Tasks: 6}, {Peer: "mini", PeerName: "mini", Tasks: 2}}},
		{State: "failed", Signal: 9, Reason: "oom", Message: "out of memory: it may use 256 MiB", Count: 2, Examples: []api.Example{{Task: render.ID + ".41.1", Peer: "nas", PeerName: "nas"}}, Peers: []api.PeerCount{{Peer: "nas", PeerName: "nas", Tasks: 2}}},
	}}
	var slow []api.Task
	for i := range 10 {
		slow = append(slow, api.Task{ID: fmt.Sprintf("%s.%d.1", render.ID, 7*i+1), Slot: 7*i + 1, Attempt: 1, State: "complete", Peer: "nas", PeerName: "nas", Took: 2.9 - 0.2*float64(i), Waited: 0.3, Item: fmt.Sprint("scene-", i)})
	}
	hour := api.PeerLoad{Peer: "nas", PeerName: "nas", Now: peers[1].Load, Step: 30, Hour: make([]*api.Load, 120), AsOf: noon}
	for i := 20; i < 120; i++ {
		if i < 60 || i > 65 {
			hour.Hour[i] = load(0.2+0.7*float64((i*i)%97)/97, int64(4+i/24))
		}
	}
	plan := api.Preview{Tasks: 10, Places: []api.Place{{Peer: "nas", PeerName: "nas", Tasks: 7}, {Peer: "mini", PeerName: "mini", Tasks: 3}}, Queued: 2, Owners: []api.Answer{}, Notes: []string{"its order is signed by mini and good for a week"}, AsOf: noon}
	well := api.Checkup{Peer: "nas", PeerName: "nas", Version: "0.2.0", AsOf: noon, Findings: []api.Finding{
		{Check: "peer", Result: api.FindingOK, Text: "it runs, with the data folder /var/lib/covey"},
		{Check: "tcp", Result: api.FindingOK, Text: "others reach it by TCP: mini, workshop"},
		{Check: "nat", Result: api.FindingUntried, Text: "not tried: what kind of NAT it is behind (two others have to tell where it sends from, and 1 did)"},
		{Check: "sync", Result: api.FindingWarn, Text: "half of 12 writes are on its disk within 81ms, and 99 % within 190ms: this peer should not vote", Do: "have another machine vote instead (`peer roles`), or move its data folder to a faster disk"},
		{Check: "room", Result: api.FindingFail, Text: "its disk is full: 61 MiB are free of 917 GiB, and below 128 MiB it takes no tasks", Do: "make room on the disk with /var/lib/covey"},
	}}
	base := "/v1/jobs/" + render.ID
	return map[string]any{
		"/v1/status": api.Status{ID: "mini", Name: "mini", AsOf: noon, Ready: true}, "/v1/peers": api.Peers{Peers: peers, Coordinator: "nas", Epoch: "1/3", AsOf: noon}, "/v1/links": links,
		"/v1/jobs": api.Jobs{Jobs: []api.Job{render, train, million}, AsOf: noon}, "/v1/story": api.Story{Story: story, AsOf: noon}, "/v1/peers/nas/load": hour, "/v1/peers/nas/doctor": well,
		base: api.JobAnswer{Job: render, AsOf: noon}, base + "/grid": api.Grid{Slots: 600, Each: 1, Cells: string(cells), Legend: legend, Counts: counts, AsOf: noon}, base + "/timeline": line,
		base + "/failures": failures, base + "/tasks": api.Tasks{Tasks: slow, All: 10, AsOf: noon}, "/v1/jobs?dry_run=1": plan,
	}
}

// stage serves the page with what is made up.
func stage(t *testing.T) string { return serveMadeUp(t, madeUp()) }

func serveMadeUp(t *testing.T, answers map[string]any) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, ok := answers[r.URL.RequestURI()]
		if !ok {
			v, ok = answers[r.URL.Path]
		}
		switch {
		case r.URL.Path == "/v1/watch":
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case ok:
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(v)
		case strings.HasPrefix(r.URL.Path, "/v1/"):
			t.Error("asked for ", r.URL)
			http.NotFound(w, r)
		default:
			web.Handler().ServeHTTP(w, r)
		}
	}))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL
}

// opens shows a page to which it is noon.
func (b *browser) opens(url string) {
	b.Helper()
	b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "UTC"})
		return err
	}))
	b.each(still)
	b.do(chromedp.Navigate(url))
}

// each has every page that is opened from now on run a script first.
func (b *browser) each(script string) {
	b.Helper()
	b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
		return err
	}))
}

// look is what the browser shows.
func (b *browser) look() image.Image {
	b.Helper()
	shot, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.Fatal(err)
	}
	all, err := png.Decode(bytes.NewReader(shot))
	if err != nil {
		b.Fatal(err)
	}
	return all
}

// smaller is a picture whose points are the mean of times × times of another one.
func smaller(p image.Image, times int) *image.Gray {
	size := p.Bounds().Size().Div(times)
	out := image.NewGray(image.Rectangle{Max: size})
	for y := range size.Y {
		for x := range size.X {
			sum := 0
			for i := range times * times {
				sum += int(color.GrayModel.Convert(p.At(x*times+i%times, y*times+i/times)).(color.Gray).Y)
			}
			out.SetGray(x, y, color.Gray{Y: uint8(sum / (times * times))})
		}
	}
	return out
}

// Two pictures are alike if few of their fields differ: a field is a square of 16 × 16 pixels of
// the screen, in which letters of another font are a similar grey, and a part that has moved is
// not.
const (
	kept      = 2    // times smaller than the screen a golden picture is
	fieldSide = 8    // of its pixels
	greyApart = 14   // of 255
	mostApart = 0.15 // of fields in which there is anything: DejaVu Serif in place of Sans makes 0.06, a part that has moved at least 0.25
)

// Colours are kept as the mean of each field, in a picture of its own: greys tell neither green
// from red nor from blue.
const (
	tintApart = 26  // of 255, between two of a field's red, green and blue
	mostFaded = 0.3 // of the fields of one colour: DejaVu Serif in place of Sans makes 0, failed drawn as if it ran 1
	fewTinted = 6   // fields of a colour say nothing
)

// tints are the mean colours of a picture's fields.
func tints(p image.Image) *image.RGBA {
	const side = kept * fieldSide
	size := p.Bounds().Size().Div(side)
	out := image.NewRGBA(image.Rectangle{Max: size})
	for y := range size.Y {
		for x := range size.X {
			var sum [3]int
			for i := range side * side {
				r, g, b, _ := p.At(x*side+i%side, y*side+i/side).RGBA()
				sum[0], sum[1], sum[2] = sum[0]+int(r>>8), sum[1]+int(g>>8), sum[2]+int(b>>8)
			}
			for i := range sum {
				sum[i] /= side * side
			}
			out.SetRGBA(x, y, color.RGBA{uint8(sum[0]), uint8(sum[1]), uint8(sum[2]), 255})
		}
	}
	return out
}

// faded is the largest share of the fields of one colour that have another one now.
func faded(got, was *image.RGBA) (worst float64, what string) {
	if got.Rect != was.Rect {
		return 1, "size"
	}
	of := func(p *image.RGBA, i int) (red, blue int) { // how far they are from green
		c := p.Pix[i : i+3]
		return int(c[0]) - int(c[1]), int(c[2]) - int(c[1])
	}
	all, lost := map[string]int{}, map[string]int{}
	for i := 0; i < len(was.Pix); i += 4 {
		red, blue := of(was, i)
		name := ""
		switch {
		case max(red, blue) > tintApart && red > blue:
			name = "red"
		case max(red, blue) > tintApart:
			name = "blue"
		case min(red, blue) < -tintApart:
			name = "green"
		default:
			continue
		}
		all[name]++
		r, b := of(got, i)
		if max(red-r, r-red, blue-b, b-blue) > tintApart {
			lost[name]++
		}
	}
	for name, n := range all {
		if share := float64(lost[name]) / float64(n); n >= fewTinted && share > worst {
			worst, what = share, name
		}
	}
	return worst, what
}

// apart is the share of fields in which two pictures differ, of those in which there is anything.
func apart(a, b *image.Gray) float64 {
	a, b = smaller(a, fieldSide), smaller(b, fieldSide)
	if a.Rect != b.Rect {
		return 1
	}
	blank, differ, some := int(a.Pix[len(a.Pix)-1]), 0, 0
	for i, v := range a.Pix {
		far := func(x, y int) bool { return max(x-y, y-x) > greyApart }
		if far(int(v), blank) || far(int(b.Pix[i]), blank) {
			some++
		}
		if far(int(v), int(b.Pix[i])) {
			differ++
		}
	}
	return float64(differ) / float64(max(1, some))
}

var goldenViews = []struct{ name, hash, shows string }{
	{"cluster", "#/", "document.querySelectorAll('svg.cluster a').length === 4 && document.querySelectorAll('line').length === 4 && document.querySelector('ul.story')"},
	{"jobs", "#/jobs", "document.querySelectorAll('ul.jobs > li').length === 3"},
	{"job", "#/job/4x7qrender", "document.querySelectorAll('canvas').length === 2 && document.body.innerText.includes('Slowest') && document.body.innerText.includes('brick.png')"},
	{"peer", "#/peer/nas", "document.querySelector('canvas') && document.querySelector('[aria-label=\"Runs there\"] li') && document.querySelectorAll('.checks > li').length === 5"},
	{"story", "#/story", "document.querySelectorAll('ul.story li').length >= 5"},
	{"run", "#/run", "document.querySelector('textarea') && document.body.innerText.includes('good for a week')"},
}

// narrow are the views that have a picture of a telephone, too.
var narrow = []string{"cluster", "job"}

func TestThePageLooksAsInItsGoldenPictures(t *testing.T) {
	b := newBrowser(t)
	b.do(chromedp.EmulateViewport(1360, 1200))
	b.opens(stage(t))
	b.js("['', ':root, canvas { font-family: \\'DejaVu Sans\\' }'].map((css) => { const s = document.createElement('style'); s.textContent = css; if (!css) s.id = 'broken'; document.head.append(s); })")
	for _, scheme := range []string{"light", "dark"} {
		b.scheme(scheme)
		for _, v := range goldenViews {
			b.at(v.hash)
			b.sees(v.name, v.shows)
			b.settles()
			b.golden(v.name, v.name+"-"+scheme)
			if scheme == "light" {
				b.noticesWhatIsBroken(v.name, v.name+"-"+scheme)
			}
		}
	}
	b.do(chromedp.EmulateViewport(360, 1600))
	b.scheme("light")
	for _, v := range goldenViews {
		if slices.Contains(narrow, v.name) {
			b.at(v.hash)
			b.sees(v.name, v.shows)
			b.settles()
			b.golden(v.name, v.name+"-narrow")
		}
	}
	b.silent()
}

// golden checks what is shown against a view's golden pictures.
func (b *browser) golden(view, name string) {
	b.Helper()
	shot := b.look()
	got, path := smaller(shot, kept), filepath.Join("testdata", "page", name+".png")
	tint, tintPath := tints(shot), filepath.Join("testdata", "page", name+"-colours.png")
	if golden.Updating() {
		writePicture(b.T, path, got)
		writePicture(b.T, tintPath, tint)
	}
	const hint = "If it is meant to: go test -tags long ./testnet -run Golden -update"
	if share := apart(got, smaller(readPicture(b.T, path), 1)); share > mostApart {
		writePicture(b.T, filepath.Join(os.TempDir(), "covey-"+filepath.Base(path)), got)
		b.Errorf("%s differs from %s in %.1f %% of its fields; it is in %s now. %s", view, path, 100*share, os.TempDir(), hint)
	}
	if share, what := faded(tint, readTints(b.T, tintPath)); share > mostFaded {
		b.Errorf("%s: %.0f %% of the fields that are %s in %s are not any more. %s", view, 100*share, what, tintPath, hint)
	}
}

func TestFailedAndRunningAreToldApartWithoutColours(t *testing.T) {
	b := newBrowser(t)
	b.opens(stage(t))
	b.says("pi cannot be reached")
	b.js(`(() => { const s = document.createElement("style"); s.textContent = ":root { --ok: #888 !important; --bad: #888 !important; --run: #888 !important; --stop: #888 !important; --queue: #888 !important; --wait: #888 !important }"; document.head.append(s); })()`)
	shows := func(part, values string) string {
		return b.js(fmt.Sprintf(`Promise.all([import("/preact.js"), import("/draw.js")]).then(async ([{ html, render }, { Heat, Lanes }]) => {
			const all = [];
			for (const value of %s) {
				const at = document.body.appendChild(document.createElement("div"));
				at.style.width = "600px";
				render(%s, at);
				await new Promise((f) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(f, 50))));
				all.push(at.querySelector("canvas").toDataURL());
				at.remove();
			}
			return new Set(all).size; })`, values, part))
	}
	for what, part := range map[string]string{
		"large cells":  `html` + "`<${Heat} grid=${{ cells: value.repeat(100), legend: { c: 'complete', f: 'failed', r: 'running' } }} label='x' />`",
		"middle cells": `html` + "`<${Heat} grid=${{ cells: value.repeat(1000), legend: { c: 'complete', f: 'failed', r: 'running' } }} label='x' />`",
		"small cells":  `html` + "`<${Heat} grid=${{ cells: value.repeat(3000), legend: { c: 'complete', f: 'failed', r: 'running' } }} label='x' />`",
	} {
		if n := shows(part, `["c", "f", "r"]`); n != "3" {
			t.Errorf("%s of three states look like %s", what, n)
		}
	}
	lanes := func(n int) string {
		return fmt.Sprintf("html`<${Lanes} line=${{ from: 0, to: 60000, lanes: [{ peer: 'p', peer_name: 'p', tasks: %d, bars: Array.from({ length: %[1]d }, (_, i) => ({ slot: i + 1, attempt: 1, state: value, start: 0, end: 60 })) }] }} label='x' />`", n)
	}
	for _, n := range []int{4, 100} {
		if got := shows(lanes(n), `["complete", "failed", "running"]`); got != "3" {
			t.Errorf("%d bars of three states look like %s", n, got)
		}
	}
	if got := shows("html`<${Lanes} line=${{ from: 0, to: 60000, step: 1, lanes: [{ peer: 'p', tasks: 9, busy: Array(60).fill(9), bad: Array(60).fill(value) }] }} label='x' />`", "[0, 1]"); got != "2" {
		t.Errorf("lanes of many tasks, with and without failures, look like %s", got)
	}
	b.silent()
}

func TestAnAnswerThatComesBeforeTheFirstPictureIsDrawn(t *testing.T) {
	b := newBrowser(t)
	b.each("window.setInterval = () => 0; { const paint = requestAnimationFrame; window.requestAnimationFrame = (f) => setTimeout(() => paint(f), 500); }") // asks once, paints late
	b.opens(stage(t))
	b.says("pi cannot be reached")
	b.silent()
}

// noticesWhatIsBroken checks that the measure holds where only letters differ, and not where more
// does.
func (b *browser) noticesWhatIsBroken(view, name string) {
	b.Helper()
	was := smaller(readPicture(b.T, filepath.Join("testdata", "page", name+".png")), 1)
	wasTints := readTints(b.T, filepath.Join("testdata", "page", name+"-colours.png"))
	for what, css := range map[string]string{
		"letters": "* { font-family: 'DejaVu Serif' !important }", "places": "main { transform: translate(0, 30px) }", "panels": "section { padding: 40px !important }",
		"pictures": ".bar, canvas, svg { visibility: hidden }", "colours": ":root { --bad: light-dark(#2563b0, #5aa5ee) !important }", // failed, drawn as if it ran
	} {
		if what == "colours" && !slices.Contains(narrow, view) { // too little of it is red
			continue
		}
		b.js(fmt.Sprintf("document.getElementById('broken').textContent = %q", css))
		b.js("import('/api.js').then((m) => m.live.tell())") // canvases are drawn anew
		b.settles()
		shot, drawn := b.look(), b.js("!!document.querySelector('.bar, canvas, svg')") == "true"
		if share, name := faded(tints(shot), wasTints); what == "colours" || what == "letters" {
			if (share > mostFaded) == (what == "letters") {
				b.Errorf("%s with other %s: %.2f of its fields that are %s have another colour", view, what, share, name)
			}
			if what == "colours" {
				continue
			}
		}
		if share := apart(smaller(shot, kept), was); (share > mostApart) == (what == "letters" || what == "pictures" && !drawn) {
			b.Errorf("%s with other %s: %.3f of its fields differ", view, what, share)
		}
	}
	b.js("document.getElementById('broken').textContent = ''")
}

// settles waits until the browser has painted what it was told.
func (b *browser) settles() {
	b.Helper()
	b.js("new Promise((f) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(f, 50))))")
}

func writePicture(t *testing.T, path string, p image.Image) {
	t.Helper()
	var out bytes.Buffer
	err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, p)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	if err == nil {
		err = os.WriteFile(path, out.Bytes(), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func readTints(t *testing.T, path string) *image.RGBA {
	t.Helper()
	p := readPicture(t, path)
	out := image.NewRGBA(p.Bounds())
	draw.Draw(out, out.Rect, p, p.Bounds().Min, draw.Src)
	return out
}

func readPicture(t *testing.T, path string) image.Image {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatalf("%v; with -update it is written", err)
	}
	defer f.Close()
	p, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
