// What happened, with a line at when its reader looked last.
import { html } from "./preact.js";
import { Says, useLive } from "./parts.js";
import { live } from "./api.js";
import * as w from "./words.js";

const key = "covey looked";
// last is when this browser looked before this visit.
export const last = Number(localStorage.getItem(key)) || 0;
export const looked = () => { if (!document.hidden) localStorage.setItem(key, String(Date.now())); };

// known is what happened: what was told since this page was opened, and before that the jobs.
function known({ events, jobs }) {
  const told = new Set(events.map((e) => e.job + e.state));
  const before = (jobs?.jobs || []).map((j) => ({ kind: "job", job: j.id, state: j.state, time: j.ended || j.submitted, seq: j.id })).filter((e) => !told.has(e.job + e.state));
  return [...events, ...before];
}

export function StoryList({ most }) {
  const { peers, jobs } = useLive();
  const all = known(live).sort((a, b) => new Date(b.time) - new Date(a.time)).slice(0, most);
  if (!all.length) return html`<p class="dim">Nothing that this peer remembers.</p>`;
  const from = last && all.findIndex((e) => new Date(e.time) < last);
  return html`<ul class="story">${all.map((e, i) => html`
    ${from > 0 && i === from && html`<li class="since" key="since">older than your last look, ${w.day(last)}</li>`}
    <li key=${e.token || e.seq + e.kind + i}><time datetime=${e.time} title=${new Date(e.time).toLocaleString()}>${w.since(e.time, Date.now()) > 72000 ? w.day(e.time).slice(0, 9) : w.clock(e.time)}</time>
      <i class="dot" style=${{ background: `var(--${w.eventKind(e)})` }} /><span>${e.job ? html`<a href=${"#/job/" + e.job}>${w.event(e, peers?.peers, jobs?.jobs)}</a>` : w.event(e, peers?.peers, jobs?.jobs)}</span></li>`)}</ul>`;
}

export function Story() {
  useLive();
  const fresh = last ? known(live).filter((e) => new Date(e.time) > last) : [];
  const bad = fresh.filter((e) => e.kind === "job" && e.state === "failed").length, over = fresh.filter((e) => e.kind === "job" && e.state === "complete").length;
  const dead = fresh.filter((e) => e.kind === "peer" && w.eventKind(e) === "bad").length, led = fresh.filter((e) => e.kind === "coordinator").length;
  const said = [over && w.many(over, "job was completed", "jobs were completed"), bad && w.many(bad, "job failed", "jobs failed"), dead && w.many(dead, "peer was lost", "peers were lost"), led && w.many(led, "coordinator was elected", "coordinators were elected")].filter(Boolean);
  return html`<${Says}>${!last ? "You have not looked here before: this is what the peer remembers." : said.length ? `Since you looked last (${w.day(last)}): ${said.join(", ")}.` : `Nothing of note since you looked last (${w.day(last)}).`}<//>
    <section aria-label="Story"><${StoryList} most=${400} /></section>`;
}
