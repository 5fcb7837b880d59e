// All jobs, with a search.
import { html, useState } from "./preact.js";
import { JobRow, Says, State, Table, useLive } from "./parts.js";
import * as w from "./words.js";

const most = 200;

export function Jobs({ text, now }) {
  const { jobs } = useLive(), [find, setFind] = useState(""), [only, setOnly] = useState("");
  const word = find.toLowerCase();
  const found = jobs.jobs.filter((j) => (!only || (only === "now" ? !j.ended : j.state === only)) && (!word || [j.name, j.id, j.waiting || ""].some((s) => s.toLowerCase().includes(word))));
  const n = (s) => jobs.jobs.filter((j) => j.state === s).length;
  return html`<${Says}>${jobs.jobs.length ? html`${n("running") ? html`<strong class="run">${w.many(n("running"), "job runs", "jobs run")}</strong>` : "No job runs"}, ${w.many(n("pending") + n("held"), "waits", "wait")}, ${w.many(n("complete"), "is complete", "are complete")}${n("failed") ? html`, <strong class="bad">${w.num(n("failed"))} failed</strong>` : ""}.` : "Nobody has submitted a job yet."}<//>
    <div class="tools"><input type="search" id="find" placeholder="name, id or reason" aria-label="Find jobs" value=${find} onInput=${(e) => setFind(e.target.value)} />
      <select aria-label="Which jobs" value=${only} onChange=${(e) => setOnly(e.target.value)}><option value="">all</option><option value="now">not over</option>${["running", "pending", "failed", "complete", "shutdown"].map((s) => html`<option value=${s}>${w.jobState(s)}</option>`)}</select>
      <span class="dim">${found.length > most ? `the newest ${most} of ${found.length}` : w.many(found.length, "job")}</span></div>
    <section aria-label="Jobs">${!found.length ? html`<p class="dim">None like that.</p>` : text ? html`<${Table} label="Jobs" rows=${found.slice(0, most)} columns=${[
      ["Id", (j) => html`<a class="mono" href=${"#/job/" + j.id}>${w.short(j.id)}</a>`], ["Name", (j) => j.name], ["Type", (j) => j.type], ["State", (j) => html`<${State} s=${j.state} of=${w.jobState} />`], ["Done", (j) => w.progress(j), "n"],
      ["Submitted", (j) => w.day(j.submitted)], ["Why it waits", (j) => (j.ended ? "" : j.waiting || ""), "wide"]]} />`
      : html`<ul class="jobs">${found.slice(0, most).map((j) => html`<${JobRow} key=${j.id} job=${j} now=${now} />`)}</ul>`}</section>`;
}
