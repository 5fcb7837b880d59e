// What several views show.
import { html, useEffect, useLayoutEffect, useReducer, useRef, useState } from "./preact.js";
import { get, live, token } from "./api.js";
import * as w from "./words.js";

// useLive draws its view anew when something changed. It listens from its first moment on: an answer
// that comes before the first picture is painted counts.
export function useLive() {
  const [, again] = useReducer((n) => n + 1, 0);
  useLayoutEffect(() => { live.watchers.add(again); return () => live.watchers.delete(again); }, []);
  return live;
}

// useAsked asks again when a job has changed, at most once a second, and when the path is another;
// with every, after so many seconds whatever has changed.
export function useAsked(path, job, every) {
  const [v, set] = useState({ path });
  useEffect(() => {
    let over = false, dirty = true, busy = false, n = 0;
    const abort = new AbortController();
    const ask = async () => {
      if (!path || !dirty || busy || document.hidden) return;
      dirty = false;
      busy = true;
      try {
        const value = await get(path, abort.signal);
        if (!over) set({ path, value });
      } catch (error) {
        if (!over) set((old) => ({ ...old, path, error }));
      }
      busy = false;
    };
    const changed = (id) => { if (!id || (!every && (!job || id === job))) dirty = true; };
    live.jobWatchers.add(changed);
    const t = setInterval(() => { if (every ? ++n % every === 0 : live.held) dirty = true; ask(); }, 1000);
    ask();
    return () => { over = true; abort.abort(); clearInterval(t); live.jobWatchers.delete(changed); };
  }, [path, job, every]);
  return v.path === path ? v : {};
}

export function Says({ children }) { return html`<h1>${children}</h1>`; }

export function Bar({ job }) {
  const n = w.parts(job);
  return html`<div class="bar" role="img" aria-label=${w.order.filter((k) => n[k]).map((k) => `${n[k]} ${w.names[k]}`).join(", ")}>
    ${w.order.filter((k) => n[k] && k !== "wait").map((k) => html`<i key=${k} style=${{ flexGrow: n[k], background: `var(--${k})` }} />`)}
    <i key="rest" style=${{ flexGrow: Math.max(0, (job.wanted || job.count || 1) - (n.ok + n.bad + n.stop + n.run + n.queue)), minWidth: 0 }} /></div>`;
}

export function JobRow({ job, now }) {
  const why = job.state !== "complete" && !job.ended && job.waiting;
  return html`<li><a href=${"#/job/" + job.id}>
    <div class="row"><span><b>${job.name}</b><span class="mono">${w.short(job.id)}</span></span><span>${w.progress(job)}</span></div>
    <${Bar} job=${job} />
    <div class="sub">${w.mark(job.state)} ${w.when(job, now)}${job.ended || !live.pace(job) ? "" : " · " + w.pace(live.pace(job))}${why ? html` · <span class="warn">${why}</span>` : ""}</div></a></li>`;
}

// Table is the text of a picture, or a list. Each column is [head, of a row, class]; without heads
// the first names its row.
export function Table({ label, columns, rows }) {
  return html`<div class="scroll" tabindex="0" role="group" aria-label=${label}><table>
    ${columns.some(([head]) => head) && html`<thead><tr>${columns.map(([head, , c]) => html`<th class=${c || ""} scope="col">${head}</th>`)}</tr></thead>`}
    <tbody>${rows.map((r) => html`<tr key=${r.id || r.task}>${columns.map(([, f, c]) => html`<td class=${c || ""}>${f(r)}</td>`)}</tr>`)}</tbody></table></div>`;
}

export const State = ({ s, of = w.taskState }) => html`<span class=${({ ok: "ok", run: "run", bad: "bad" })[w.kind(s)] || "dim"}>${w.mark(s)} ${of(s)}</span>`;

export function Legend() {
  return html`<div class="legend" aria-hidden="true">${w.order.map((k) => html`<span><i style=${{ background: `var(--${k})` }}>${{ bad: "✗", run: "•" }[k]}</i>${w.names[k]}</span>`)}</div>`;
}

// Do is a button for what changes something: it asks first, and says what came of it. Who may not sees none.
let say = () => {};
export const tell = (text) => say(text);
export function Notes() {
  const [text, set] = useState("");
  const t = useRef();
  say = (s) => { set(s); clearTimeout(t.current); t.current = setTimeout(() => set(""), 6000); };
  return html`<div role="status" aria-live="polite">${text && html`<div class="says">${text}</div>`}</div>`;
}

export function Do({ name, label, ask, act, done, bad, small, id, scope = "submit" }) {
  const ref = useRef(), [busy, setBusy] = useState(false);
  const go = async () => {
    ref.current?.close();
    setBusy(true);
    try {
      const v = await act();
      tell(typeof done === "function" ? done(v) : done);
      live.dirty = true;
    } catch (e) {
      tell(e.message);
    }
    setBusy(false);
  };
  if (!token.may(scope)) return "";
  return html`<button id=${id} class=${bad ? "bad" : small ? "small" : ""} aria-label=${label} disabled=${busy} onClick=${() => (ask ? ref.current.showModal() : go())}>${name}</button>
    ${ask && html`<dialog ref=${ref} aria-label=${name}><p>${ask}</p><div class="tools">
      <button class=${bad ? "bad" : ""} onClick=${go}>${name}</button><button autofocus onClick=${() => ref.current.close()}>No</button></div></dialog>`}`;
}
