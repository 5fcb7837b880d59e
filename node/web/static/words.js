// Numbers, times and states in words.

export const many = (n, one, more = one + "s") => `${num(n)} ${n === 1 ? one : more}`;
export const num = (n) => n.toLocaleString("en-US", { maximumFractionDigits: 1 });
export const short = (id) => id?.slice(0, 4) ?? "";

export function span(s) {
  if (s < 0.95) return s < 0.001 ? "0 s" : `${Math.max(1, Math.round(s * 1000))} ms`;
  if (s < 9.95) return `${s.toFixed(1)} s`;
  if (s < 90) return `${Math.round(s)} s`;
  if (s < 5400) return `${Math.round(s / 60)} min`;
  if (s < 129600) return `${Math.round(s / 3600)} h`;
  return `${Math.round(s / 86400)} days`;
}
export const rtt = (s) => (s < 0.001 ? "< 1 ms" : `${Math.round(s * 1000)} ms`);
export const since = (t, now) => Math.max(0, (now - new Date(t)) / 1000);
const two = (n) => String(n).padStart(2, "0");
export const ago = (t, now) => { const s = Math.round(since(t, now)); return s < 2 ? "just now" : `${span(s)} ago`; };
export const clock = (t) => { const d = new Date(t); return `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`; };
export const day = (t) => new Date(t).toLocaleString("en-GB", { weekday: "short", hour: "2-digit", minute: "2-digit" });
export function size(b) {
  const i = b < 1 ? 0 : Math.min(5, Math.floor(Math.log2(b) / 10));
  return `${num(b / 1024 ** i)} ${["B", "KiB", "MiB", "GiB", "TiB", "PiB"][i]}`;
}

// kind is the class of a state: its colour; mark the same for who sees none.
export const kinds = {
  failed: "bad", rejected: "bad", orphaned: "bad", running: "run", saving: "run", complete: "ok", shutdown: "stop", held: "wait", retired: "wait",
  queued: "queue", assigned: "queue", accepted: "queue", preparing: "queue", ready: "queue", starting: "queue", pending: "wait", new: "wait",
};
export const kind = (s) => kinds[s] || "wait";
export const mark = (s) => ({ bad: "✗", run: "●", ok: "✓", stop: "■", queue: "◌", wait: "○" })[kind(s)];

export const here = (p) => p.standing === "ready" || p.standing === "suspect";
// order is how parts of a bar follow each other.
export const order = ["ok", "bad", "stop", "run", "queue", "wait"];
export const names = { ok: "complete", bad: "failed", stop: "stopped", run: "running", queue: "queued at a peer", wait: "waiting" };

export function parts(job) {
  const n = { ok: 0, bad: 0, stop: 0, run: 0, queue: 0, wait: 0 };
  for (const [s, k] of Object.entries(job.tasks || {})) n[kind(s)] += k;
  return n;
}

export function progress(job) {
  const n = parts(job), all = job.wanted || job.count;
  if (job.type !== "batch") return `${num(n.run)} of ${num(all)} run`;
  return `${num(n.ok)} of ${num(all)}` + (n.bad ? ` · ${num(n.bad)} failed` : "");
}

// jobState and taskState are what people call a state: "shutdown" is a word of programs.
export const jobState = (s) => (s === "shutdown" ? "cancelled" : s);
export const taskState = (s) => (s === "shutdown" ? "stopped" : s);

// pace says how fast the tasks of a job end, and when they all have.
export const pace = (p) => (p?.rate ? `${num(p.rate)} a second${p.left ? `; ${p.left < 1 ? "less than a second" : "about " + span(p.left)} to go` : ""}` : "");

export function when(job, now) {
  if (job.ended) return `${jobState(job.state)} after ${span(since(job.submitted, new Date(job.ended)))} · ${ago(job.ended, now)}`;
  return `${job.state} · ${ago(job.submitted, now)}`;
}

// eventKind is the colour of what happened.
const tones = { dead: "bad", failed: "bad", paused: "stop", drained: "stop", left: "stop", removed: "stop", labelled: "queue", superseded: "stop", shutdown: "stop", updated: "run", "rolling-back": "bad", "rolled-back": "bad", "rollback-paused": "bad" };
export const eventKind = (e) => tones[e.state] || "ok";

// busy is how busy a machine is with all that runs there, as far as it tells.
export const percent = (x) => `${Math.round(100 * x)} %`;
export const busy = (l) => (l?.cpu != null ? percent(l.cpu) + " busy" : "");
