// What happened, with a line at when its reader looked last.
import { html } from "./preact.js";
import { Says, useLive } from "./parts.js";
import * as w from "./words.js";

const key = "covey looked";
// last is when this browser looked before this visit.
export const last = Number(localStorage.getItem(key)) || 0;
export const looked = () => { if (!document.hidden) localStorage.setItem(key, String(Date.now())); };

export function StoryList({ most }) {
  const all = useLive().story.slice(0, most);
  if (!all.length) return html`<p class="dim">Nothing that this peer remembers.</p>`;
  const from = last ? all.findIndex((e) => new Date(e.time) < last) : -1;
  return html`<ul class="story">${all.map((e, i) => html`
    ${from > 0 && i === from && html`<li class="since" key="since">older than your last look, ${w.day(last)}</li>`}
    <li key=${e.time + e.text}><time datetime=${e.time} title=${new Date(e.time).toLocaleString()}>${w.since(e.time, Date.now()) > 72000 ? w.day(e.time).slice(0, 9) : w.clock(e.time)}</time>
      <i class="dot" style=${{ background: `var(--${w.eventKind(e)})` }} /><span>${e.job ? html`<a href=${"#/job/" + e.job}>${e.text}</a>` : e.text}</span></li>`)}</ul>`;
}

export function Story() {
  const fresh = useLive().story.filter((e) => new Date(e.time) > last);
  const n = (k, ...states) => fresh.filter((e) => e.kind === k && states.includes(e.state)).length;
  const said = [[n("job", "complete"), "job was completed", "jobs were completed"], [n("job", "failed"), "job failed", "jobs failed"], [n("peer", "dead"), "peer was lost", "peers were lost"], [n("coordinator", "elected"), "coordinator was elected", "coordinators were elected"]]
    .filter(([k]) => k).map((x) => w.many(...x));
  return html`<${Says}>${!last ? "You have not looked here before: this is what the peer remembers." : said.length ? `Since you looked last (${w.day(last)}): ${said.join(", ")}.` : `Nothing of note since you looked last (${w.day(last)}).`}<//>
    <section aria-label="Story"><${StoryList} most=${400} /></section>`;
}
