// One job: where each task is, where and when they ran, what failed, what they print.
import { html, useEffect, useLayoutEffect, useRef, useState } from "./preact.js";
import { bytes, lines, live, post, seg, token } from "./api.js";
import { Heat, Lanes } from "./draw.js";
import { Bar, Do, Legend, Says, State, Table, useAsked } from "./parts.js";
import * as w from "./words.js";

// called is a task without its job: SLOT.ATTEMPT, in an array ITEM.ATTEMPT.
const called = (t) => (t.named || t.id || t.task).replace(/^[^.]*\.(item=)?/, "");

function sentence(j, now) {
  const n = w.parts(j), all = j.wanted || j.count, name = html`<strong class="run">${j.name}</strong>`;
  const bad = n.bad ? html` <strong class="bad">${w.num(n.bad)} failed.</strong>` : "";
  if (j.ended) return html`${name} ${{ complete: "is complete", failed: "has failed", shutdown: "was stopped" }[j.state] || "is over"} after ${w.span(w.since(j.submitted, new Date(j.ended)))}: ${w.num(n.ok)} of ${w.num(all)} done.${bad}${j.cancelled ? ` ${j.cancelled}.` : ""}`;
  if (j.type !== "batch") return html`${name} runs ${w.num(n.run)} of ${w.num(all)} tasks, version ${j.version || 1}.${j.rollout && j.rollout.state !== "completed" ? ` Its update is ${j.rollout.state}.` : ""}${bad}`;
  const p = j.pace;
  return html`${name} has done ${w.num(n.ok + n.bad)} of ${w.num(all)}${p?.rate ? ", " + w.pace(p) : ""}.${bad}${j.waiting && !n.run ? html` <strong class="warn">It waits: ${j.waiting}.</strong>` : ""}`;
}

export function Job({ id, text, now }) {
  const [log, setLog] = useState(null);
  const job = useAsked("/v1/jobs/" + seg(id), id), j = job.value?.job;
  const base = j && "/v1/jobs/" + j.id;
  const grid = useAsked(base && base + "/grid?cells=4000", id).value, line = useAsked(base && base + "/timeline?px=1200", id).value;
  const failures = useAsked(base && base + "/failures", id).value;
  const ended = useAsked(base && base + "/tasks?sort=-took&limit=10", id).value;
  useLayoutEffect(() => {
    const k = (e) => { if (e.detail === "l" && j) setLog((v) => (v === null ? "" : null)); };
    addEventListener("covey-key", k);
    return () => removeEventListener("covey-key", k);
  }, [j?.id]);
  useEffect(() => { if (j && j.id !== id) location.replace("#/job/" + j.id); }, [j?.id]); // `last`, or a name
  if (!j) return html`<${Says}>${job.error ? html`<strong class="bad">${job.error.message}</strong>` : "…"}<//>`;
  const n = w.parts(j), slow = (ended?.tasks || []).filter((t) => t.took > 0);
  return html`<${Says}>${sentence(j, now)}<//>
    ${(j.unreachable || []).map((u) => html`<p class="trouble" key=${u.peer}>${u.peer_name} cannot be reached for ${w.span(w.since(u.since, now))} and has ${w.many(u.tasks, "task")} of this job: ${u.then}.</p>`)}
    <div class="tools">
      ${!j.ended && html`<${Do} id="cancel" bad name="Cancel" ask=${`Stop ${j.name} and all that runs of it?`} act=${() => post(base + "/cancel")} done=${`${j.name} is being stopped`} />`}
      ${(n.bad > 0 || n.stop > 0) && j.type === "batch" && html`<${Do} id="retry" name="Retry what failed" act=${() => post(base + "/retry")} done=${(v) => `${w.many(v.retried, "slot")} got another attempt`} />`}
      ${j.schedule && html`<${Do} id="trigger" name="Start now" act=${() => post(base + "/trigger")} done=${(v) => `run ${w.short(v.id)} was started`} />`}
      <button id="logs" aria-pressed=${log !== null} onClick=${() => setLog(log === null ? "" : null)}>Logs</button>
      <input id="task" size="12" placeholder="logs of task…" aria-label="Logs of the task with this number" onKeyDown=${(e) => { if (e.key === "Enter" && /^\d+(\.\d+)?$/.test(e.target.value.trim())) setLog(`${j.id}.typed=${e.target.value.trim()}`); }} />
      ${token.may("submit") && html`<a class="button" href=${"#/run/" + j.id}>Run it again…</a>`}
      <span class="dim mono">${j.id}</span></div>
    ${log !== null && html`<${Logs} key=${log} job=${j} task=${log} close=${() => setLog(null)} />`}
    <section aria-label="Tasks by slot"><h2>Tasks by slot${grid?.each > 1 ? html` <span>a cell is ${grid.each} tasks, the worst shows</span>` : ""}</h2>
      ${!grid ? "…" : text || !grid.cells ? html`<${Bar} job=${j} /><${Table} label="Tasks by state" rows=${Object.entries(grid.counts).filter(([, c]) => c).map(([s, c]) => ({ id: s, c }))} columns=${[["State", (r) => html`<${State} s=${r.id} />`], ["Tasks", (r) => w.num(r.c), "n"]]} />`
        : html`<${Heat} grid=${grid} label=${"Tasks by slot: " + Object.entries(grid.counts).filter(([, c]) => c).map(([s, c]) => `${c} ${s}`).join(", ")}
            hit=${(i) => { if (i >= 0 && grid.each === 1) setLog(`${j.id}.${i + 1}`); return ""; }} tip=${(i) => (i < 0 ? "" : `${grid.each > 1 ? "tasks" : "task"} ${i * grid.each + 1}${grid.each > 1 ? "–" + Math.min(grid.slots, (i + 1) * grid.each) : ""}: ${grid.legend[grid.cells[i]]}`)} /><${Legend} />`}</section>
    ${line?.lanes?.length > 0 && html`<section aria-label="Where and when"><h2>Where and when</h2>
      ${text ? html`<${Table} label="Where and when" rows=${line.lanes.map((l) => ({ ...l, id: l.peer }))} columns=${[["Peer", (l) => l.peer_name], ["Tasks", (l) => w.num(l.tasks), "n"], ["Failed", (l) => w.num(spent(l, line.step).bad), "n"], ["First", (l) => "+" + w.span(spent(l, line.step).first), "n"], ["Last", (l) => "+" + w.span(spent(l, line.step).last), "n"]]} />`
        : html`<${Lanes} line=${line} label=${`Where and when: ${line.lanes.map((l) => `${l.tasks} on ${l.peer_name}`).join(", ")}`} hit=${(b) => { setLog(`${j.id}.${b.slot}.${b.attempt}`); return ""; }} />`}
      <div class="row sub" style=${{ marginTop: "8px" }}><span>${w.clock(line.from)}</span>${!text && html`<span>▲ failed · striped: running</span>`}<span>${w.clock(line.to)}</span></div></section>`}
    ${failures?.groups?.length > 0 && html`<section aria-label="What failed"><h2>What failed, in groups</h2><${Table} label="What failed" rows=${failures.groups.map((g, i) => ({ ...g, id: i + 1 }))} columns=${[
        ["Tasks", (g) => w.num(g.count + (g.earlier || 0)), "n"], ["How", (g) => (g.signal ? `signal ${g.signal}` : g.exit_code != null ? `exit ${g.exit_code}` : g.reason || g.state)],
        ["What it said", (g) => html`${g.last ? html`<span class="mono">${g.last}</span> ` : ""}${g.last && g.exit_code != null ? "" : html`<span class=${g.last ? "dim" : ""}>${g.message || g.reason}</span>`}`, "wide"], ["Where", (g) => g.peers.slice(0, 3).map((p) => p.peer_name).join(", ")],
        ["One of them", (g) => g.examples[0] && html`<button class="small mono" onClick=${() => setLog(g.examples[0].task)}>${called(g.examples[0])}</button>`]]} /></section>`}
    <${Files} job=${j} />
    <div class="grid">
      ${slow.length > 0 && html`<section aria-label="Slowest"><h2>Slowest</h2><${Table} label="Slowest tasks" rows=${slow} columns=${[
        ["Task", (t) => html`<button class="small mono" onClick=${() => setLog(t.id)}>${called(t)}</button>`], ["State", (t) => html`<${State} s=${t.state} />`], ["Took", (t) => w.span(t.took), "n"], ["Waited", (t) => w.span(t.waited), "n"], ["Peer", (t) => t.peer_name], ["Item", (t) => t.item || "", "wide"]]} /></section>`}
      <section aria-label="What it runs"><h2>What it runs</h2><${Spec} j=${j} /></section></div>`;
}

// spent is when a lane's first task began and its last one ended, in seconds, and how many ended badly; above 5,000 tasks
// they come as how many ran in each step.
function spent(lane, step) {
  if (lane.bars?.length) return { first: Math.min(...lane.bars.map((b) => b.start)), last: Math.max(...lane.bars.map((b) => b.end)), bad: lane.bars.filter((b) => w.kind(b.state) === "bad").length };
  const used = (lane.busy || []).map((n, i) => n > 0 || lane.bad?.[i] > 0);
  return { first: Math.max(0, used.indexOf(true)) * step || 0, last: (used.lastIndexOf(true) + 1) * step || 0, bad: (lane.bad || []).reduce((a, b) => a + b, 0) };
}

function Spec({ j }) {
  const s = j.spec || {}, needs = [s.cpus && `${s.cpus} cpu`, s.memory && w.size(s.memory), s.disk && w.size(s.disk) + " of disk", ...Object.entries(s.others || {}).map(([k, v]) => `${v} ${k}`)].filter(Boolean);
  const rows = [["runs", s.unknown || (s.command || []).join(" ") || (s.script ? "a script" : "nothing")], ["needs", needs.join(", ")], ["only where", (s.constraints || []).join(" and ")], ["in", s.dir], ["sets", (s.env || []).join(", ")], ["reads", (s.inputs || []).join(", ")], ["keeps", (s.outputs || []).join(", ")],
    ["next", j.schedule?.next && w.day(j.schedule.next)], ["after", (j.after || []).map((a) => a.name || a.id).join(", ")], ["signed until", j.order && new Date(j.order.until).toLocaleDateString("en-GB")]].filter(([, v]) => v);
  return html`<${Table} label="What it runs" rows=${rows.map(([id, v]) => ({ id, v }))} columns=${[["", (r) => html`<span class="dim">${r.id}</span>`], ["", (r) => html`<span class="mono">${r.v}</span>`, "wide"]]} />`;
}

const mostFiles = 200, mostBytes = 256 << 20; // a browser holds a download in memory

// download hands a file to the browser under its own name, with its task's number if there are several.
async function download(job, f) {
  const a = document.createElement("a"), name = f.path.split("/").pop();
  a.download = job.count > 1 ? `${f.slot}-${name}` : name;
  a.href = URL.createObjectURL(new Blob(f.size ? await bytes(f.ref) : [], { type: "application/octet-stream" })); // else a browser appends what it guesses
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 60000);
  return a.download;
}

function Files({ job }) {
  const [open, setOpen] = useState(false);
  const v = useAsked(open && `/v1/jobs/${job.id}/files?partial=1`, job.id);
  if (!job.spec?.outputs?.length) return "";
  const all = v.value?.files;
  return html`<section aria-label="Files"><h2>Files <button class="small" aria-expanded=${open} onClick=${() => setOpen(!open)}>${open ? "hide" : "show"}</button></h2>
    ${!open ? html`<span class="dim">kept of each task: ${job.spec.outputs.join(", ")}</span>` : v.error ? html`<span class="bad">${v.error.message}</span>` : !all ? "…" : html`<p class="dim">${w.many(all.length, "file")}${all.length > mostFiles ? `, the first ${mostFiles}` : ""}; <span class="mono">peer get ${w.short(job.id)}</span> brings them${w.parts(job).bad ? html`, with <span class="mono">--partial</span> also those of tasks that failed` : ""}.</p>
    <${Table} label="Files" rows=${all.slice(0, mostFiles).map((f) => ({ ...f, id: f.slot + f.path }))} columns=${[["Task", (f) => f.slot, "n"], ["File", (f) => f.path, "wide"], ["Size", (f) => (f.kind === "file" ? w.size(f.size) : f.kind), "n"],
      ["To this machine", (f) => (f.ref && f.size <= mostBytes ? html`<${Do} small scope="read" name="Download" label=${`Download ${f.path} of task ${f.slot}`} act=${() => download(job, f)} done=${(name) => `${name} is downloaded`} />` : "")],
      ["As a command", (f) => html`<span class="mono">peer get ${w.short(job.id)}.${job.spec.folders === "item" ? "slot=" : ""}${f.slot}</span>`]]} />`}</section>`;
}

const mostText = 200000;
// Logs shows what tasks print while they do; the tab's other stream stands still meanwhile.
function Logs({ job, task, close }) {
  const [pieces, set] = useState([]), box = useRef(), stuck = useRef(true);
  useEffect(() => {
    const abort = new AbortController(), letGo = live.hold(), all = [], decoders = new Map();
    let size = 0, due = 0;
    const show = () => { due = 0; set(all.slice()); };
    const add = (cls, text) => {
      all.push([cls, text]);
      size += text.length;
      while (size > mostText) size -= all.shift()[1].length;
      due ||= setTimeout(show, 100);
    };
    const q = new URLSearchParams({ follow: "1", tail: task ? "2000" : "100" });
    const typed = task.split(".typed=")[1]; // JOB.ITEM of an array, else JOB.SLOT: the peer finds it
    if (!typed && task.split(".").length === 3) q.set("task", task);
    else if (task && !typed) q.set("slot", task.split(".")[1]);
    let before = "";
    lines(`/v1/jobs/${job.id}${typed ? "." + typed : ""}/logs?${q}`, (c) => {
      const who = c.task && called(c);
      if (c.note) add("note", `${who}: ${c.note}\n`);
      if (c.error) add("err", `${who}: ${c.error.message}\n`);
      if (!c.data) return;
      const k = c.task + c.stream;
      if (!decoders.has(k)) decoders.set(k, new TextDecoder());
      if (!task && before !== k) add("who", `— ${who}${c.stream === "stderr" ? " stderr" : ""}\n`);
      before = k;
      add(c.stream === "stderr" ? "warn" : "", decoders.get(k).decode(Uint8Array.from(atob(c.data), (x) => x.charCodeAt(0)), { stream: true }));
    }, abort.signal).then(() => add("note", "— that is all\n"), (e) => abort.signal.aborted || add("err", e.message + "\n"));
    return () => { abort.abort(); clearTimeout(due); letGo(); };
  }, []);
  useEffect(() => { if (stuck.current && box.current) box.current.scrollTop = box.current.scrollHeight; });
  return html`<section aria-label="Logs"><h2>What ${task ? `task ${task.split(".").slice(1).join(".")}` : "its tasks"} print${task ? "s" : ""} <button class="small" onClick=${close}>close</button></h2>
    <pre class="log" tabindex="0" role="log" aria-label="Output" ref=${box} onScroll=${(e) => { stuck.current = e.target.scrollTop + e.target.clientHeight > e.target.scrollHeight - 20; }}>${pieces.map(([c, t]) => html`<span class=${c}>${t}</span>`)}</pre></section>`;
}
