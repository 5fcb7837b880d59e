// A job file, with what would become of it while it is typed.
import { html, useEffect, useRef, useState } from "./preact.js";
import { get, post, seg, token } from "./api.js";
import { Do, Says, Table, tell } from "./parts.js";
import * as w from "./words.js";

const example = `name: hello
array: 1-10
run:
  process:
    command: [echo, "hello from {}"]
`;
const key = "covey job file";

// A form for who does not write YAML: what is filled in becomes the job file, which stays in sight.
const fields = [["name", "Name", "hello", "a word"], ["command", "Command", 'echo "hello from $COVEY_ITEM"', "one line for a shell; $COVEY_ITEM is the number of its task"], ["array", "A task for each of", "1-10", "numbers: 1-10, or 1,3,5; nothing: one task"],
  ["cpus", "Processors of each", "1", "1, 0.5, …"], ["memory", "Memory of each", "", "512MiB, 2GB, …; nothing: no limit of its own"]];
const plain = (s) => (/^[\w.,:-]+$/.test(s) ? s : JSON.stringify(s));
const written = (f) => {
  const needs = ["cpus", "memory"].filter((k) => f[k]).map((k) => `${k}: ${plain(f[k])}`).join(", ");
  return `name: ${plain(f.name)}\n${f.array ? `array: ${plain(f.array)}\n` : ""}run:\n  process:\n    shell: true\n    command: ${JSON.stringify(f.command)}\n${needs ? `resources: {${needs}}\n` : ""}`;
};

function Form({ write }) {
  const [f, set] = useState(() => Object.fromEntries(fields.map(([k, , v]) => [k, v])));
  const input = (k) => (e) => { const next = { ...f, [k]: e.target.value.trim() }; set(next); write(written(next)); };
  return html`<div class="form">${fields.map(([k, name, , hint]) => html`<label key=${k} for=${"form-" + k}>${name}</label><input id=${"form-" + k} aria-describedby=${"hint-" + k} autocomplete="off" spellcheck=${false} defaultValue=${f[k]} onInput=${input(k)} /><span id=${"hint-" + k} class="sub">${hint}</span>`)}</div>`;
}

export function Run({ id }) {
  return token.may("submit") ? html`<${Write} id=${id} />` : html`<${Says}>This browser may look, and run nothing.<//><section><p><span class="mono">peer web</span> on the peer's machine opens the page with all its buttons.</p></section>`;
}

function Write({ id }) {
  const [file, setFile] = useState(() => sessionStorage.getItem(key) || example), [plan, setPlan] = useState(null), [error, setError] = useState(null), [form, setForm] = useState(false), box = useRef();
  useEffect(() => { if (id) get(`/v1/jobs/${seg(id)}/file`).then((v) => setFile(v.file), (e) => tell(e.message)); }, [id]);
  useEffect(() => {
    sessionStorage.setItem(key, file);
    const abort = new AbortController();
    const ask = () => {
      if (!document.hidden) post("/v1/jobs?dry_run=1", file, "application/yaml", abort.signal).then((p) => { setPlan(p); setError(null); }, (e) => { if (!abort.signal.aborted) setError(e); });
    };
    const soon = setTimeout(ask, 250), later = setInterval(ask, 5000); // where it would go changes by itself, too
    return () => { clearTimeout(soon); clearInterval(later); abort.abort(); };
  }, [file]);
  const submit = () => post("/v1/jobs", file, "application/yaml").then((v) => { location.hash = "#/job/" + v.id; return v; });
  const faults = error && error.message.split("\n").map((m) => m.match(/^[^:]*:(\d+):(\d+): (.*)$/) || [0, 0, 0, m]);
  const goto = (line, col) => {
    const at = file.split("\n").slice(0, line - 1).reduce((n, l) => n + l.length + 1, 0) + col - 1;
    box.current.focus();
    box.current.setSelectionRange(at, at);
  };
  return html`<${Says}>${error ? html`<strong class="bad">This cannot be run yet:</strong> ${w.many(faults.length, "thing is", "things are")} wrong with it.` : plan ? planSentence(plan) : "…"}<//>
    <div class="grid"><section aria-label="Job file"><h2><label for="file">Job file</label> <button id="form" class="small" aria-expanded=${form} onClick=${() => setForm(!form)}>${form ? "without the form" : "fill in a form"}</button></h2>
      ${form && html`<${Form} write=${setFile} />`}
      <textarea id="file" ref=${box} spellcheck=${false} autocomplete="off" value=${file} onInput=${(e) => setFile(e.target.value)}
        onKeyDown=${(e) => { if ((e.ctrlKey || e.metaKey) && e.key === "Enter" && !error) submit().catch((x) => tell(x.message)); }} />
      ${faults && html`<div role="alert"><ul class="errors">${faults.map(([, l, c, m]) => html`<li>${l ? html`<button class="small" onClick=${() => goto(+l, +c)}>line ${l}, ${c}</button> ` : ""}${m}</li>`)}</ul></div>`}
      <div class="tools" style=${{ margin: "14px 0 0" }}><${Do} id="submit" name=${plan?.update ? "Update" : "Run"} act=${async () => { if (error) throw error; return submit(); }} done=${(v) => (v.held ? v.note || "held until somebody decides" : `submitted as ${w.short(v.id)}`)} /><span class="dim"><kbd>Ctrl</kbd> <kbd>Enter</kbd></span></div></section>
    <section aria-label="What would happen"><h2>What would happen</h2>${plan && html`<${Plan} p=${plan} stale=${!!error} />`}
      <p class="sub" style=${{ marginTop: "16px" }}>The same as a command: <span class="mono">peer submit ${plan?.update ? "--wait " : ""}job.yaml</span></p></section></div>`;
}

function planSentence(p) {
  const n = p.tasks - p.waiting;
  return html`${p.update ? `This is an update, version ${p.version}. ` : ""}<strong class=${n ? "ok" : "warn"}>${n ? `${w.many(n, "task")} would go to ${w.many(p.places.length, "peer")}` : p.tasks ? "No peer could take it now" : "No task would start now"}</strong>${p.waiting && n ? `; ${w.num(p.waiting)} would wait` : ""}${p.waiting && p.reason ? `: ${p.reason}` : ""}.`;
}

function Plan({ p, stale }) {
  const no = (p.owners || []).filter((o) => !o.allowed);
  return html`<div class=${stale ? "gone" : ""}>
    ${p.places.length > 0 && html`<${Table} label="Places" rows=${p.places.map((x) => ({ ...x, id: x.peer }))} columns=${[["Peer", (x) => x.peer_name || w.short(x.peer)], ["Tasks", (x) => w.num(x.tasks), "n"]]} />`}
    ${p.queued > 0 && html`<p class="dim">${w.num(p.queued)} of them would wait there until something ends.</p>`}
    ${p.changes?.length > 0 && html`<${Table} label="Changes" rows=${p.changes.map((c) => ({ ...c, id: c.field }))} columns=${[["Field", (c) => c.field], ["From", (c) => c.from || "–", "wide"], ["To", (c) => c.to || "–", "wide"], ["Its tasks", (c) => (c.restarts ? "restart" : "go on")]]} />`}
    ${(p.refused || []).map((r) => html`<p key=${r.reason}>${w.many(r.peers, "peer")}: ${r.reason}</p>`)}
    ${no.map((o) => html`<p key=${o.peer} class="warn">${o.peer_name} does not let it in: ${o.reason}</p>`)}
    ${(p.notes || []).map((x) => html`<p key=${x} class="dim">${x}</p>`)}</div>`;
}
