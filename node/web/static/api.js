// What the peer is asked, and the one stream of a tab.

const key = "covey token";
export const token = {
  get: () => localStorage.getItem(key),
  set: (t) => localStorage.setItem(key, t),
  drop: () => localStorage.removeItem(key),
  // may tells whether a token of this scope is enough: the peer refuses anyway, and the page shows no buttons for it.
  may: (scope) => scopes.indexOf(localStorage.getItem(key + " scope") || "admin") >= scopes.indexOf(scope),
};
const scopes = ["read", "submit", "admin"];

// Failed is an error as the API has it.
export class Failed extends Error {
  constructor(status, e) {
    super(e?.message || `the peer answered ${status} and gave no reason`);
    this.status = status;
    this.code = e?.code;
  }
}

async function send(method, path, body, type, signal) {
  const headers = { Authorization: "Bearer " + token.get() };
  if (method !== "GET") headers["Content-Type"] = type;
  let r;
  try {
    r = await fetch(path, { method, headers, body, signal, credentials: "omit" });
  } catch (e) {
    if (signal?.aborted) throw e;
    throw new Failed(0, { message: "this peer does not answer: is it still running? Type `peer status` there" });
  }
  if (r.ok) return r;
  const e = await r.text().then(parse).catch(() => null);
  throw new Failed(r.status, e?.error);
}

// parse reads an answer. What would reorder the text around it is spelled out: other peers choose names and messages.
export const parse = (text) => JSON.parse(text, (_, v) => (typeof v === "string" ? v.replace(/\p{Bidi_Control}/gu, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0")) : v));
const answer = (r) => r.text().then(parse);
export const get = (path, signal) => send("GET", path, undefined, "", signal).then(answer);
export const post = (path, body = "{}", type = "application/json", signal) => send("POST", path, body, type, signal).then(answer);
export const seg = (id) => encodeURIComponent(id).replaceAll(".", "%2E");

// login makes the code of a link a token. The code leaves the address at once.
export async function login() {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (!code) return;
  history.replaceState(null, "", location.pathname + "#/");
  const r = await fetch("/login", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ code }) });
  const v = await r.json();
  if (!r.ok) throw new Failed(r.status, v.error);
  token.set(v.secret);
  localStorage.setItem(key + " scope", v.scope);
}

// lines calls each with every line of a stream, and returns when it ends.
export async function lines(path, each, signal) {
  const r = await send("GET", path, undefined, "", signal);
  const reader = r.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ; ) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    for (const p of parts) {
      if (!p) continue;
      const v = parse(p);
      if (v.error && Object.keys(v).length === 1) throw new Failed(200, v.error);
      each(v);
    }
  }
}

// bytes brings a file that a job left, whole or not at all: lines of JSON, each followed by as many
// bytes as it says.
export async function bytes(root) {
  const r = await send("POST", "/v1/files/get", JSON.stringify({ root }), "application/json");
  const reader = r.body.getReader(), text = new TextDecoder(), out = [];
  for (let head = "", left = 0; ; ) {
    let { value, done } = await reader.read();
    if (done) throw new Failed(0, { message: "the file was cut off: try once more" });
    while (value.length) {
      if (left) {
        out.push(value.subarray(0, left));
        const n = Math.min(left, value.length);
        left -= n;
        value = value.subarray(n);
        continue;
      }
      const at = value.indexOf(10);
      head += text.decode(at < 0 ? value : value.subarray(0, at), { stream: true });
      if (at < 0) break;
      const line = JSON.parse(head);
      if (line.error) throw new Failed(200, line.error);
      if (line.end) return out;
      head = "";
      left = line.bytes || 0;
      value = value.subarray(at + 1);
    }
  }
}

const ended = (j) => ["complete", "failed", "rejected", "shutdown", "orphaned"].reduce((n, s) => n + (j.tasks?.[s] || 0), 0);

// live is what is known now. Whoever shows it is told of changes; while the tab is hidden nothing is
// asked.
export const live = {
  status: null, peers: null, jobs: null, story: [], error: null, asOf: null,
  watchers: new Set(), jobWatchers: new Set(), seen: new Map(), held: 0, resume: "", abort: null, dirty: true,

  tell() { for (const f of this.watchers) f(); },

  // hold stops the stream while another one is needed; the answer lets it go on.
  hold() {
    this.held++;
    this.abort?.abort();
    return () => { if (--this.held === 0) this.run(); };
  },

  async refresh() {
    if (document.hidden || !token.get() || this.busy || this.error?.status === 401) return;
    this.busy = true;
    this.dirty = false;
    try {
      const [status, peers, jobs, story] = await Promise.all([get("/v1/status"), get("/v1/peers"), get("/v1/jobs"), get("/v1/story?limit=400")]);
      const ends = jobs.jobs.filter((j) => j.ended).map((j) => ({ time: j.ended, kind: "job", state: j.state, job: j.id, text: `${j.name}: ${{ complete: "complete", shutdown: "was stopped" }[j.state] || j.state}` }));
      Object.assign(this, { status, peers, jobs, story: [...story.story, ...ends].sort((a, b) => (a.time < b.time ? 1 : -1)) });
      this.asOf = new Date(this.status.as_of);
      this.measure();
      this.error = null;
    } catch (e) {
      this.error = e;
    }
    this.busy = false;
    this.tell();
  },

  // measure keeps how many tasks of each job had ended in the last half minute; pace tells how fast that is, and how long the rest takes.
  measure() {
    const at = new Date(this.jobs.as_of) / 1000, kept = new Map();
    for (const j of this.jobs.jobs) {
      if (j.ended || j.type !== "batch") continue;
      const seen = [...(this.seen.get(j.id) || []), { at, done: ended(j) }];
      while (seen.length > 2 && at - seen[0].at > 30) seen.shift();
      kept.set(j.id, seen);
    }
    this.seen = kept;
  },

  pace(j) {
    const seen = this.seen.get(j.id) || [], first = seen[0], last = seen.at(-1);
    if (seen.length < 2 || last.done <= first.done || last.at - first.at < 1) return null;
    const rate = (last.done - first.done) / (last.at - first.at);
    return { rate, left: ((j.wanted || j.count) - last.done) / rate };
  },

  event(e) {
    if (e.token) this.resume = e.token;
    if (["bookmark", "end", "synced", "snapshot"].includes(e.kind)) return;
    this.dirty = true;
    if (e.job) for (const f of this.jobWatchers) f(e.job);
  },

  async run() {
    while (!document.hidden && !this.held && token.get()) {
      const abort = (this.abort = new AbortController());
      try {
        await lines("/v1/watch?since=" + encodeURIComponent(this.resume), (e) => this.event(e), abort.signal);
      } catch (e) {
        if (abort.signal.aborted) return;
        this.resume = ""; // what was missed meanwhile is asked for
        this.error = e;
        this.dirty = true;
        for (const f of this.jobWatchers) f();
        this.tell();
        if (e.status === 401) return;
      }
      await new Promise((f) => setTimeout(f, 1000));
    }
  },

  start() {
    this.refresh();
    this.run();
    let n = 0;
    setInterval(() => { if (!document.hidden && (this.dirty || this.held || this.error || ++n % 5 === 0)) this.refresh(); }, 1000);
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) return this.abort?.abort();
      this.refresh();
      if (!this.held) this.run();
    });
  },
};
