// One peer: how it stands, what is wrong, what it offers and runs; drain and its like.
import { html } from "./preact.js";
import { post, seg } from "./api.js";
import { Past } from "./draw.js";
import { Do, Says, Table, useAsked, useLive } from "./parts.js";
import * as w from "./words.js";

export function Peer({ id, text }) {
  const { peers, jobs } = useLive();
  const p = peers.peers.find((x) => x.id === id || x.name === id);
  if (!p) return html`<${Says}><strong class="bad">No peer ${id} is known here.</strong><//>`;
  const to = (availability) => post(`/v1/peers/${p.id}/availability`, JSON.stringify({ availability, reason: "on the page" }));
  const takes = { active: "It takes tasks.", pause: "It takes no new tasks.", drain: `It is drained${p.tasks_left ? `: ${w.many(p.tasks_left, "task")} left` : ""}.` }[p.availability];
  return html`<${Says}><strong class=${w.here(p) ? "ok" : "bad"}>${p.name}</strong> ${w.here(p) ? `runs ${w.many(p.tasks, "task")} on ${w.num(p.cpus_running)} of ${w.num(p.cpus)} processors.` : `is ${p.standing} for ${w.span(p.age)}.`} ${p.coordinator ? "It is the coordinator. " : p.voter ? "It votes. " : ""}${takes}<//>
    ${(p.troubles || []).map((t) => html`<p class="trouble" key=${t.code}>${t.message}</p>`)}
    <div class="tools">
      ${p.availability !== "drain" && html`<${Do} id="drain" scope="admin" name="Drain" ask=${`Have all that runs on ${p.name} go elsewhere, and nothing new come?`} act=${() => to("drain")} done=${`${p.name} is being drained`} />`}
      ${p.availability === "active" && html`<${Do} id="pause" scope="admin" name="Pause" act=${() => to("pause")} done=${`${p.name} takes no new tasks`} />`}
      ${p.availability !== "active" && html`<${Do} id="activate" scope="admin" name="Activate" act=${() => to("active")} done=${`${p.name} takes tasks again`} />`}</div>
    <div class="grid">
      <section aria-label="Promised to tasks"><h2>Promised to tasks</h2><${Meter} name="processors" used=${p.cpus_running} queued=${p.cpus_queued} all=${p.cpus} of=${w.num} /><${Meter} name="memory" used=${p.memory_used} all=${p.memory} of=${w.size} /><${Meter} name="disk" used=${p.disk_used} all=${p.disk} of=${w.size} />
        ${Object.entries(p.offers || {}).map(([k, n]) => html`<${Meter} key=${k} name=${k} used=${p.offers_used?.[k] || 0} all=${n} of=${w.num} />`)}</section>
      <${Hour} peer=${p} text=${text} />
      <${Well} peer=${p} />
      <section aria-label="Runs there"><h2>Runs there</h2>${p.tasks ? html`<ul class="jobs">${jobs.jobs.filter((j) => j.tasks?.running || j.tasks?.saving).slice(0, mostJobs).map((j) => html`<${Here} key=${j.id} job=${j} peer=${p.id} />`)}</ul>` : html`<p class="dim">Nothing.</p>`}</section>
      <section aria-label="About it"><h2>About it</h2><${Table} label="About it" rows=${[["id", p.id], ["link", p.path + (p.rtt ? ", " + w.rtt(p.rtt) : "")], ["runs on", [p.os, p.arch].filter(Boolean).join("/")], ["version", p.version], ["roles", (p.roles || []).join(", ")], ["labels", Object.entries(p.labels || {}).map(([k, v]) => `${k}=${v}`).join(" ")], ["holds", (p.holds || []).join(" ")], ["addresses", (p.addrs || []).join(" ")], ["why", p.availability_reason]].filter(([, v]) => v).map(([id, v]) => ({ id, v }))}
        columns=${[["", (r) => html`<span class="dim">${r.id}</span>`], ["", (r) => html`<span class="mono">${r.v}</span>`, "wide"]]} /></section></div>`;
}

// Hour is how busy the machine was, with whatever ran on it. It is asked itself.
function Hour({ peer, text }) {
  const { value: v, error } = useAsked(w.here(peer) && `/v1/peers/${peer.id}/load`, "", 15);
  const all = (v?.hour || []).map((l, i) => ({ ...l, id: i, at: new Date(new Date(v.as_of) - (v.hour.length - i) * v.step * 1000) })), known = all.filter((l) => v.hour[l.id]);
  const says = [w.busy(v?.now), v?.now?.memory != null && `${w.size(v.now.memory)} of ${w.size(v.now.memory_of)} in use`, v?.now?.average != null && `load average ${w.num(v.now.average)}`].filter(Boolean).join(", ");
  const most = known.reduce((a, b) => (b.cpu > (a?.cpu ?? -1) ? b : a), null);
  return html`<section aria-label="Its machine, an hour"><h2>Its machine, an hour</h2>
    <p class="dim">${error ? error.message : !v ? "…" : says || "Its system does not tell how busy it is."}</p>
    ${text ? html`<${Table} label="Its machine, an hour" rows=${known.filter((l) => l.id % 10 === 9)} columns=${[["Until", (l) => w.clock(new Date(+l.at + v.step * 1000))], ["Busy", (l) => (l.cpu != null ? w.percent(l.cpu) : "not told"), "n"], ["In use", (l) => (l.memory != null ? w.size(l.memory) : "not told"), "n"], ["Load average", (l) => (l.average != null ? w.num(l.average) : "not told"), "n"]]} />`
      : known.some((l) => l.cpu != null || l.memory != null) && html`<${Past} all=${all} label=${`Processors over an hour${most ? `, at most ${w.percent(most.cpu)} busy at ${w.clock(most.at)}` : ""}`} />
        <div class="row sub"><span>${w.clock(all[0].at)}</span><span>processors (filled), memory (line)</span><span>${w.clock(v.as_of)}</span></div>`}</section>`;
}

// Well is what the peer finds when it looks at itself, worst first. It writes a little to its disk
// for that, so that it is asked rarely.
const marks = { fail: ["✗", "bad", "does not work"], warn: ["!", "warn", "could be better"], ok: ["✓", "ok", "as it should be"], untried: ["–", "dim", "not tried"] };
function Well({ peer }) {
  const { value: v, error } = useAsked(`/v1/peers/${peer.id}/doctor`, "", 300);
  const of = (...results) => results.flatMap((r) => (v?.findings || []).filter((f) => f.result === r));
  const list = (some) => html`<ul class="checks">${some.map((f, i) => html`<li key=${i}><b class=${marks[f.result][1]} role="img" aria-label=${marks[f.result][2]}>${marks[f.result][0]}</b><span>${f.text}${f.do && html`<div class="sub">${f.do}</div>`}</span></li>`)}</ul>`;
  const wrong = of("fail", "warn"), rest = of("untried", "ok");
  return html`<section aria-label="Is it well?"><h2>Is it well?${v && html`<span>${w.clock(v.as_of)}</span>`}</h2>
    ${v ? html`${list(wrong)}${rest.length > 0 && html`<details><summary>${[[of("ok").length, "as it should be"], [of("untried").length, "not tried"]].filter(([n]) => n).map(([n, as]) => `${w.many(n, "check")} ${as}`).join(", ")}</summary>${list(rest)}</details>`}` : html`<p class="dim">${error ? error.message : "It is being looked at: that takes seconds."}</p>`}</section>`;
}

const mostJobs = 20, mostTasks = 8;
// Here is what runs of one job on a peer.
function Here({ job, peer }) {
  const v = useAsked(`/v1/jobs/${job.id}/tasks?state=running,saving&peer=${seg(peer)}&limit=${mostTasks}`, job.id).value;
  if (!v?.tasks.length) return "";
  return html`<li><a href=${"#/job/" + job.id}><div class="row"><span><b>${job.name}</b><span class="mono">${w.short(job.id)}</span></span><span>${w.many(v.all, "task")}</span></div>
    <div class="sub">${v.tasks.map((t) => `${t.slot}.${t.attempt}${t.item ? " " + t.item : ""}`).join(", ")}${v.all > mostTasks ? ", …" : ""}</div></a></li>`;
}

function Meter({ name, used, queued = 0, all, of }) {
  return html`<div class="row"><span>${name}</span><span>${of(used)} of ${of(all)}${queued ? html` <span class="dim">+ ${of(queued)} queued</span>` : ""}</span></div>
    <div class="bar" role="img" aria-label=${`${name}: ${of(used)} of ${of(all)} promised`}><i style=${{ flexGrow: Math.min(used, all), background: "var(--run)", minWidth: 0 }} /><i style=${{ flexGrow: Math.max(0, Math.min(queued, all - used)), background: "var(--queue)", minWidth: 0 }} /><i style=${{ flexGrow: Math.max(0, all - used - queued), minWidth: 0 }} /></div>`;
}
