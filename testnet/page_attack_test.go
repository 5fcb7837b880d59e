//go:build !windows

package testnet_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/node/api"
)

// elsewhere is a page of another port that tries what pages can; window.tried has what became of
// it.
const elsewhere = `<!doctype html><title>elsewhere</title><body><script>
const door = %q, id = %q, token = %q, tried = window.tried = {};
const ask = (what, path, how) => fetch(door + path, how).then((r) => r.text()).then((t) => { tried[what] = "read " + t.length + " bytes"; }, () => { tried[what] = "refused"; });
const load = (what, tag, attr, path) => new Promise((f) => {
	const e = document.createElement(tag);
	e.onload = () => { tried[what] = "loaded"; f(); };
	e.onerror = () => { tried[what] = "refused"; f(); };
	e[attr] = door + path;
	document.body.append(e);
});
const form = (what, type, text) => new Promise((f) => {
	const frame = document.createElement("iframe"), form = document.createElement("form"), field = document.createElement("input");
	frame.name = what;
	Object.assign(form, { method: "POST", enctype: type, action: door + "v1/jobs/" + id + "/cancel", target: what });
	Object.assign(field, { type: "hidden", name: text, value: "" });
	form.append(field);
	document.body.append(frame, form);
	frame.onload = () => { if (form.sent) f(); };
	form.sent = true;
	form.submit();
});
Promise.all([
	ask("a fetch", "v1/status"), ask("a fetch of the page", ""), ask("a fetch with what the browser keeps", "v1/status", { credentials: "include" }),
	ask("a fetch whose answer nobody reads", "v1/status", { mode: "no-cors" }),
	ask("a preflight", "v1/jobs/" + id + "/cancel", { method: "POST", headers: { "Content-Type": "application/json", Authorization: "Bearer " + token }, body: "{}" }),
	ask("a preflight of a reader", "v1/status", { headers: { Authorization: "Bearer " + token } }),
	ask("a simple POST", "v1/jobs/" + id + "/cancel", { method: "POST", mode: "no-cors", body: "{}" }),
	load("a script of the page", "script", "src", "app.js"), load("an answer as a script", "script", "src", "v1/status"), load("a picture of the page", "img", "src", "icon.svg"),
	form("form", "application/x-www-form-urlencoded", "{}"), form("text", "text/plain", "{}"),
]).then(() => { window.over = true; });
</script><iframe id="frame"></iframe></body>`

func TestAPageOfAnotherPortReadsAndDoesNothing(t *testing.T) {
	long.Test(t)
	net := pagePeers(t, 1)
	b := newBrowser(t, chromedp.Flag("host-resolver-rules", "MAP evil.example 127.0.0.1"))
	door := b.enter(net, 1, api.AdminScope)
	id := hand(t, net, ticks)
	b.says("is alone here")
	b.silent()
	token := b.js(`localStorage.getItem("covey token")`)

	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, elsewhere, door, id, token)
	}))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	b.do(chromedp.Navigate(s.URL))
	b.sees("that all is tried", "window.over")
	if tried := b.js("Object.entries(window.tried).filter(([, what]) => what !== 'refused').map((x) => x.join(': ')).join('; ')"); tried != "" {
		t.Error(tried)
	}
	if n := b.js("Object.keys(window.tried).length"); n != "10" {
		t.Errorf("%s things were tried", n)
	}
	b.js(fmt.Sprintf("new Promise((f) => { const i = document.getElementById('frame'); i.onload = f; i.src = %q; })", door))
	b.hears("that it is in no frame", "frame-ancestors")
	if j, err := net.Client(1).Job(timed(t), id); err != nil || j.Job.Ended != nil || j.Job.Cancelled != "" {
		t.Errorf("the job: %+v, %v", j.Job, err)
	}

	other := strings.Replace(door, "127.0.0.1", "evil.example", 1)
	for _, path := range []string{"", "v1/status"} {
		b.do(chromedp.Navigate(other + path))
		if got := b.js("performance.getEntriesByType('navigation')[0].responseStatus + ' ' + document.body.innerText"); !strings.HasPrefix(got, "421 ") || !strings.Contains(got, "is not called") {
			t.Errorf("as evil.example/%s: %s", path, got)
		}
	}
}

// markup would do something if anybody took it for markup.
const markup = `<script>window.hurt=1</script><img src=x onerror=window.hurt=1>`

func TestMarkupInNamesAndOutputIsTextAndACodeThatIsInjectedDoesNotRun(t *testing.T) {
	long.Test(t)
	net := pagePeers(t, 1)
	b := browse(t, net, 1)
	id := hand(t, net, fmt.Sprintf("name: evil\neach: [%q]\nrun: {process: {command: [sh, -c, %q]}}\nresources: {cpus: 0.1}\n", markup, "echo '"+markup+"'; exit 3"))
	b.says("is alone here")

	text := func(view, part string) {
		t.Helper()
		b.sees(view+" as text", fmt.Sprintf("document.querySelector(%q)?.innerText.includes(%q)", part, markup))
		if n := b.js("document.querySelectorAll('#app script, #app img').length"); n != "0" {
			t.Errorf("%s has %s elements that are made of text", view, n)
		}
	}
	b.at("#/job/" + id)
	text("what failed", "[aria-label='What failed']")
	text("an item", "[aria-label=Slowest]")
	text("the command", "[aria-label='What it runs']")
	b.do(chromedp.KeyEvent("l"))
	text("output", "pre.log")
	b.click("#logs")
	b.silent()

	// What a peer refuses to be called, another that lies may say.
	b.js(fmt.Sprintf(`(() => { const ask = window.fetch, evil = %q; window.fetch = async (path, how) => {
		const r = await ask(path, how);
		if (!/^\/v1\/(status|peers|jobs|story)(\?|$)/.test(path)) return r;
		const v = await r.json();
		if (v.name) v.name = evil;
		for (const p of v.peers || []) Object.assign(p, { name: evil, labels: { [evil]: evil }, troubles: [{ code: "x", message: evil }], availability_reason: evil, version: evil });
		for (const j of v.jobs || []) Object.assign(j, { name: evil, waiting: evil, cancelled: evil });
		for (const e of v.story || []) e.text = evil;
		return new Response(JSON.stringify(v));
	}; import('/api.js').then((m) => m.live.refresh()); })()`, markup))
	text("the header", "header")
	for view, part := range map[string]string{"#/jobs": "ul.jobs", "#/story": "ul.story", "#/peer/" + net.ID(1): "[aria-label='About it']", "#/": "h1"} {
		b.at(view)
		text(view, part)
	}
	b.silent()

	for what, code := range map[string]string{
		"a script":               `(() => { const s = document.createElement("script"); s.textContent = "window.hurt = 1"; document.body.append(s); })()`,
		"a handler":              fmt.Sprintf(`new Promise((f) => { const d = document.createElement("div"); document.body.append(d); d.innerHTML = %q; d.querySelector("img").addEventListener("error", () => setTimeout(f)); })`, markup),
		"an address":             `(() => { const a = document.createElement("a"); a.href = "javascript:window.hurt=1"; document.body.append(a); a.click(); })()`,
		"a script in an address": fmt.Sprintf(`new Promise((f) => { const s = document.createElement("script"); s.src = %q; s.onerror = f; document.body.append(s); })`, "data:text/javascript,"+url.PathEscape("window.hurt=1")),
	} {
		b.js(code)
		b.hears(what+" being stopped", "Content Security Policy")
	}
	b.settles()
	if b.js("window.hurt") != "undefined" {
		t.Error("what was injected ran")
	}
}

// hears waits for an error of the browser's console with some words, and forgets all of them.
func (b *browser) hears(what, words string) {
	b.Helper()
	eventually(b.T, "the browser tells of "+what, func() (bool, string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		all := strings.Join(b.said, "; ")
		if !strings.Contains(all, words) {
			return false, all
		}
		b.said = nil
		return true, ""
	})
}
