// The cluster: who is here, what runs.
import { html } from "./preact.js";
import { JobRow, Says, Table, useAsked, useLive } from "./parts.js";
import { StoryList } from "./story.js";
import * as w from "./words.js";

const circles = (n) => n <= (innerWidth < 560 ? 12 : 24); // more are tiles, without links

// sentence says how the cluster stands.
export function sentence(peers, jobs) {
  const p = peers.peers.filter((x) => x.standing !== "left"), away = p.filter((x) => !w.here(x) && x.standing !== "stopped"), stopped = p.filter((x) => x.standing === "stopped");
  const runs = jobs.filter((j) => j.state === "running"), waits = jobs.filter((j) => !j.ended && j.state !== "running");
  const cpus = p.filter(w.here).reduce((n, x) => n + x.cpus, 0), used = p.filter(w.here).reduce((n, x) => n + x.cpus_running, 0);
  const troubled = p.filter((x) => x.troubles?.length);
  return html`${away.length ? html`<strong class="bad">${away.map((x) => x.name).join(", ")} cannot be reached.</strong> The other ${w.many(p.length - away.length - stopped.length, "peer")} go on.`
      : p.length === 1 ? html`<strong class="ok">${p[0].name}</strong> is alone here.` : html`All <strong class="ok">${w.many(p.length - stopped.length, "peer")}</strong> are here.`}
    ${" "}${stopped.length ? `${stopped.map((x) => x.name).join(", ")} ${stopped.length > 1 ? "were" : "was"} stopped. ` : ""}
    ${runs.length ? html`<strong class="run">${w.many(runs.length, "job runs", "jobs run")}</strong> on ${w.num(used)} of ${w.num(cpus)} processors.` : `Nothing runs on ${w.num(cpus)} processors.`}
    ${waits.length ? ` ${waits.length === 1 ? waits[0].name + " waits" : w.many(waits.length, "job waits", "jobs wait")}${waits.length === 1 && waits[0].waiting?.length < 60 ? ": " + waits[0].waiting : ""}.` : ""}
    ${!peers.coordinator ? html` <strong class="bad">Nobody decides${peers.waiting_for ? ": " + peers.waiting_for : ""}.</strong>` : ""}
    ${troubled.length ? html` <strong class="warn">Something is wrong with ${troubled.map((x) => x.name).join(", ")}.</strong>` : ""}`;
}

export function Cluster({ text, now }) {
  const { peers, jobs } = useLive();
  const all = peers.peers.filter((p) => p.standing !== "left");
  const told = useAsked(circles(all.length) && "/v1/links", "", 5).value, links = pairs(all, told?.links);
  const few = circles(all.length);
  const who = html`<section aria-label="Peers"><h2>Peers</h2>${text ? html`<${PeerTable} peers=${all} links=${links} />` : few ? html`<${Circles} peers=${all} links=${links} />` : html`<${Tiles} peers=${all} />`}</section>`;
  const runs = html`<section aria-label="Jobs"><h2>Jobs <a class="small" href="#/jobs">all ${jobs.jobs.length}</a></h2>
    ${jobs.jobs.length ? html`<ul class="jobs">${jobs.jobs.slice(0, 8).map((j) => html`<${JobRow} key=${j.id} job=${j} now=${now} />`)}</ul>` : html`<p class="dim">No job yet. <a href="#/run">Run one</a>.</p>`}</section>`;
  const happened = html`<section aria-label="What happened"><h2>What happened <a class="small" href="#/story">all</a></h2><${StoryList} most=${10} /></section>`;
  return html`<${Says}>${sentence(peers, jobs.jobs)}<//>${few ? html`<div class="grid">${who}${runs}</div>${happened}` : html`<div class="grid">${runs}${happened}</div>${who}`}`; // many take all the width
}

const use = (p) => (p.cpus ? Math.min(1, p.cpus_running / p.cpus) : 0);
const what = (p) => [p.coordinator ? "★ coordinator" : p.voter ? "voter" : "", p.self ? "this peer" : "", p.availability !== "active" ? { pause: "paused", drain: "drained" }[p.availability] || p.availability : ""].filter(Boolean).join(" · ");
const load = (p) => (w.here(p) ? `${w.num(p.cpus_running)} of ${w.num(p.cpus)} cpus · ${w.many(p.tasks, "task")}` : `${p.standing} for ${w.span(Math.ceil(p.age))}`);

// pairs are the links between peers, each once: this peer's own as they are now, those of others as
// they said some seconds ago. One of which an end is away is drawn from this peer only.
const rank = { direct: 0, relayed: 1, away: 2 }; // the rarer ones are drawn on top
function pairs(peers, links = []) {
  const by = new Map(peers.map((p) => [p.id, p])), self = peers.find((p) => p.self), out = new Map();
  const add = (a, b, path) => { const k = [a, b].sort().join(); if (out.get(k)?.path !== "direct") out.set(k, { k, a, b, path }); };
  for (const p of peers) if (self && p !== self && p.standing !== "stopped" && !(w.here(p) && p.path === "none")) add(self.id, p.id, w.here(p) ? p.path : "away");
  for (const l of links) if ([l.from, l.to].every((id) => by.has(id) && w.here(by.get(id)))) add(l.from, l.to, l.path);
  return [...out.values()].sort((x, y) => rank[x.path] - rank[y.path]);
}

function Circles({ peers, links }) {
  const n = peers.length, few = n <= 8, W = innerWidth < 560 ? 330 : 600, H = n <= 2 ? 190 : n === 3 ? 330 : n <= 6 ? 400 : 480, r = few ? 31 : 20, top = r + 14;
  const at = new Map(peers.map((p, i) => {
    const a = n === 2 ? Math.PI * (1 - i) : (i / n) * 2 * Math.PI - Math.PI / 2;
    return [p.id, n === 1 ? [W / 2, 70] : [W / 2 + Math.cos(a) * W * (few ? (W < 400 ? 0.25 : 0.33) : 0.42), n === 2 ? 70 : top + (Math.sin(a) + 1) * ((H - top - 92) / (n === 3 ? 1.5 : 2))]];
  }));
  return html`<svg class=${few ? "cluster" : "cluster many"} viewBox=${`0 0 ${W} ${H}`} role="group" aria-label="Peers and the links between them">
    ${links.map(({ k, a, b, path }) => {
      const [x1, y1] = at.get(a), [x2, y2] = at.get(b);
      return html`<line key=${k} class=${path} x1=${x1} y1=${y1} x2=${x2} y2=${y2} />`;
    })}
    ${peers.map((p) => {
      const [x, y] = at.get(p.id), c = 2 * Math.PI * r, gone = !w.here(p);
      const ring = gone ? (p.standing === "stopped" ? "var(--stop)" : "var(--bad)") : "var(--run)";
      return html`<a key=${p.id} href=${"#/peer/" + p.id}>
        <title>${[p.name, what(p), load(p)].filter(Boolean).join(" · ")}</title>
        ${gone && html`<circle cx=${x} cy=${y} r=${r + 7} fill="none" stroke=${ring} stroke-width="2" stroke-dasharray="2 3" />`}
        <circle class="face" cx=${x} cy=${y} r=${r} fill="var(--panel)" stroke="var(--wait)" stroke-width="5" />
        <circle cx=${x} cy=${y} r=${r} fill="none" stroke=${ring} stroke-width="5" stroke-dasharray=${`${(gone ? 1 : use(p)) * c} ${c}`} transform=${`rotate(-90 ${x} ${y})`} />
        <text x=${x} y=${y + 4.5}>${!few && p.coordinator ? "★ " : ""}${p.name.length > 8 ? p.name.slice(0, 7) + "…" : p.name}</text>
        ${p.troubles?.length ? html`<text x=${x + r} y=${y - r + 4} style=${{ fill: "var(--warn)", fontSize: "18px" }}>⚠</text>` : ""}
        ${few && [what(p), load(p), [!gone && w.busy(p.load), !p.self && !gone && p.path !== "none" && `${p.path}${p.rtt ? " · " + w.rtt(p.rtt) : ""}`].filter(Boolean).join(" · ")].filter(Boolean).map((s, i) => html`<text class="sub" x=${x} y=${y + r + 21 + 15 * i}>${s}</text>`)}</a>`;
    })}</svg>`;
}

function Tiles({ peers }) {
  const order = [...peers].sort((a, b) => w.here(a) - w.here(b)); // who is away first
  return html`<div class="tiles">${order.map((p) => html`<a key=${p.id} title=${[load(p), w.here(p) && w.busy(p.load)].filter(Boolean).join(" · ")} href=${"#/peer/" + p.id} class=${w.here(p) ? "" : "bad"}>${p.coordinator ? "★ " : ""}${p.name}
    <div class="bar"><i style=${{ flexGrow: use(p), background: w.here(p) ? "var(--run)" : "var(--bad)" }} /><i style=${{ flexGrow: 1 - use(p), minWidth: 0 }} /></div>
    <div class="sub">${w.here(p) ? [w.many(p.tasks, "task"), p.load?.cpu != null && w.percent(p.load.cpu)].filter(Boolean).join(" · ") : p.standing}</div></a>`)}</div>`;
}

// linked says to whom a peer has links, in as few words as there are.
function linked(p, peers, links) {
  const name = new Map(peers.map((x) => [x.id, x.name])), mine = links.filter((l) => (l.a === p.id || l.b === p.id) && l.path !== "away");
  const names = (some) => some.map((l) => name.get(l.a === p.id ? l.b : l.a)).sort().join(", "), relayed = mine.filter((l) => l.path === "relayed");
  if (mine.length && mine.length === peers.filter((x) => x !== p && w.here(x)).length) return "all others" + (relayed.length ? `, relayed to ${names(relayed)}` : "");
  return [names(mine.filter((l) => l.path !== "relayed")), relayed.length && "relayed to " + names(relayed)].filter(Boolean).join(", ") || "none";
}

function PeerTable({ peers, links }) {
  return html`<${Table} label="Peers" rows=${peers} columns=${[
    ["Name", (p) => html`<a href=${"#/peer/" + p.id}>${p.coordinator ? "★ " : ""}${p.name}</a>`], ["Standing", (p) => html`<span class=${w.here(p) ? "ok" : "bad"}>${p.standing}</span>`],
    ["Cpus", (p) => `${w.num(p.cpus_running)} of ${w.num(p.cpus)}`, "n"], ["Queued", (p) => w.num(p.cpus_queued), "n"], ["Busy", (p) => (p.load?.cpu != null ? w.percent(p.load.cpu) : "not told"), "n"], ["Memory", (p) => `${w.size(p.memory_used)} of ${w.size(p.memory)}`, "n"],
    ["Tasks", (p) => p.tasks, "n"], ["Link", (p) => p.path + (p.rtt ? " " + w.rtt(p.rtt) : "")], ...(circles(peers.length) ? [["Linked to", (p) => linked(p, peers, links), "wide"]] : []), ["Takes tasks", (p) => p.availability],
  ]} />`;
}
