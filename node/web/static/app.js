// The shell: address to view, keys, and what is known of when.
import { html, render, useEffect, useRef, useState } from "./preact.js";
import { live, login, token } from "./api.js";
import { Notes, Says, useLive } from "./parts.js";
import { Cluster } from "./cluster.js";
import { Jobs } from "./jobs.js";
import { Job } from "./job.js";
import { Peer } from "./peer.js";
import { Run } from "./run.js";
import { Story, looked } from "./story.js";
import * as w from "./words.js";

const views = [["", "Cluster", "c"], ["jobs", "Jobs", "j"], ["story", "Story", "s"], ["run", "Run", "r"]];
const keys = [["c j s r", "cluster, jobs, story, run"], ["t", "pictures as tables, and back"], ["l", "in a job: what its tasks print"], ["/", "find a job"], ["u", "back"], ["?", "these keys"], ["Esc", "close"]];

function useHash() {
  const [h, set] = useState(location.hash);
  useEffect(() => { const f = () => set(location.hash); addEventListener("hashchange", f); return () => removeEventListener("hashchange", f); }, []);
  return h.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
}

function App() {
  const { status, peers, jobs, error, asOf } = useLive(), [view, id] = useHash();
  const [text, setText] = useState(() => localStorage.getItem("covey tables") === "1"), help = useRef();
  useEffect(() => {
    const f = (e) => {
      if (e.ctrlKey || e.metaKey || e.altKey || document.querySelector("dialog[open]") || /^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName)) {
        if (e.key === "Escape") e.target.blur?.();
        return;
      }
      const to = views.find(([, , k]) => k === e.key);
      if (to) location.hash = "#/" + to[0];
      else if (e.key === "t") setText((v) => { localStorage.setItem("covey tables", v ? "0" : "1"); return !v; });
      else if (e.key === "?") help.current.showModal();
      else if (e.key === "u") history.back();
      else if (e.key === "/") { location.hash = "#/jobs"; setTimeout(() => document.getElementById("find")?.focus(), 50); } else if (e.key === "l") dispatchEvent(new CustomEvent("covey-key", { detail: "l" }));
      else return;
      e.preventDefault();
    };
    addEventListener("keydown", f);
    return () => removeEventListener("keydown", f);
  }, []);
  const now = new Date(Date.now()), out = !token.get() || error?.status === 401;
  const mine = views.filter(([to]) => to !== "run" || token.may("submit"));
  const name = { "": "Cluster", jobs: "Jobs", job: jobs?.jobs.find((j) => j.id === id)?.name || "Job", peer: peers?.peers.find((p) => p.id === id)?.name || "Peer", story: "Story", run: "Run" }[view || ""];
  useEffect(() => { document.title = `${name || "?"} · covey`; }, [name]);
  return html`<a class="skip" href="#main" onClick=${(e) => { e.preventDefault(); document.getElementById("main").focus(); }}>to the content</a>
    <header><b>covey</b><nav aria-label="Views">${mine.map(([to, name, key]) => html`<a key=${key} href=${"#/" + to} aria-current=${(view || "") === to || (to === "jobs" && view === "job") || (to === "" && view === "peer") ? "page" : undefined}>${name} <kbd aria-hidden="true">${key}</kbd></a>`)}</nav>
      ${status && html`<span class="as-of">${error && !out ? html`<span class="bad">no answer · </span>` : ""}as ${status.name} knows it, <time datetime=${status.as_of}>${w.clock(asOf)}</time></span>`}
      <button class="small" aria-label="Keys" onClick=${() => help.current.showModal()}>?</button></header>
    <main id="main" tabindex="-1">${out ? html`<${Says}>This browser is not let in${error?.message && token.get() ? ", or no longer" : ""}.<//><section><p>On the peer's machine, type <span class="mono">peer web</span>: it opens this page with a link that is good once.</p></section>`
      : !status || !peers || !jobs ? html`<${Says}>${error ? html`<strong class="bad">${error.message}</strong>` : "…"}<//>`
      : view === "jobs" ? html`<${Jobs} text=${text} now=${now} />` : view === "job" ? html`<${Job} key=${id} id=${id} text=${text} now=${now} />` : view === "peer" ? html`<${Peer} key=${id} id=${id} text=${text} />`
      : view === "story" ? html`<${Story} />` : view === "run" ? html`<${Run} id=${id} />` : view ? html`<${Says}>There is nothing at this address.<//>` : html`<${Cluster} text=${text} now=${now} />`}</main>
    <${Notes} />
    <dialog ref=${help} aria-label="Keys"><dl>${keys.map(([k, what]) => html`<dt>${k.split(" ").map((x) => html`<kbd>${x}</kbd> `)}</dt><dd>${what}</dd>`)}</dl><button autofocus onClick=${() => help.current.close()}>Close</button></dialog>`;
}

try {
  await login();
} catch (e) {
  live.error = e;
}
render(html`<${App} />`, document.getElementById("app"));
live.start();
addEventListener("pagehide", looked);
document.addEventListener("visibilitychange", () => { if (document.hidden) localStorage.setItem("covey looked", String(Date.now())); });
