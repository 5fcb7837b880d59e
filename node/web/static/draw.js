// Pictures on canvases. Each is drawn anew from what it shows; what it says is in a table, too.
import { html, useEffect, useRef } from "./preact.js";
import { kind } from "./words.js";

// ink resolves a colour of the style sheet: light-dark() in a custom property reaches a canvas
// unresolved.
export function inks() {
  const probe = document.body.appendChild(document.createElement("span"));
  const of = (name) => { probe.style.color = `var(--${name})`; return getComputedStyle(probe).color; };
  const all = Object.fromEntries(["ok", "run", "bad", "warn", "stop", "queue", "wait", "text", "dim", "line", "panel"].map((n) => [n, of(n)]));
  probe.remove();
  return all;
}

// Picture is a canvas as wide as there is room. draw(ctx, width, ink) returns nothing; height(width)
// its height; hit(x, y, width) the address of what is there.
export function Picture({ label, height, draw, hit, tip }) {
  const ref = useRef();
  useEffect(() => {
    const c = ref.current;
    const paint = () => {
      const w = c.clientWidth, h = height(w), d = devicePixelRatio || 1;
      if (!w) return;
      c.style.height = h + "px";
      c.width = Math.round(w * d);
      c.height = Math.round(h * d);
      const x = c.getContext("2d");
      x.scale(d, d);
      draw(x, w, inks());
    };
    paint();
    const size = new ResizeObserver(paint), scheme = matchMedia("(prefers-color-scheme: dark)");
    size.observe(c.parentElement);
    scheme.addEventListener("change", paint);
    return () => { size.disconnect(); scheme.removeEventListener("change", paint); };
  });
  const at = (f) => (e) => { const b = ref.current.getBoundingClientRect(); return f(e.clientX - b.left, e.clientY - b.top, b.width); };
  return html`<canvas ref=${ref} role="img" aria-label=${label} class=${hit ? "hit" : ""}
    onClick=${hit && at((x, y, w) => { const to = hit(x, y, w); if (to) location.hash = to; })}
    onMouseMove=${tip && ((e) => { ref.current.title = at(tip)(e) || ""; })} />`;
}

// Past draws shares of one over time: processors as columns, memory as a line; gaps where nothing is known.
export function Past({ all, label }) {
  const high = 84;
  return html`<${Picture} label=${label} height=${() => high} draw=${(x, w, ink) => {
    const step = w / all.length, at = (v) => 1 + (high - 2) * (1 - v);
    x.fillStyle = ink.line;
    for (const v of [0, 0.5, 1]) x.fillRect(0, at(v) - 0.5, w, 1);
    x.fillStyle = ink.run;
    all.forEach((l, i) => { if (l.cpu != null) x.fillRect(i * step, at(l.cpu), Math.max(1, step - 0.5), at(0) - at(l.cpu)); });
    x.strokeStyle = ink.text;
    x.lineWidth = 1.5;
    x.beginPath();
    all.forEach((l, i) => { if (l.memory != null) { const y = at(l.memory / l.memory_of); if (all[i - 1]?.memory == null) x.moveTo(i * step, y); x.lineTo((i + 1) * step, y); } });
    x.stroke();
  }} />`;
}

// cellsOf lays n cells out in a width.
function cellsOf(n, w) {
  const size = n <= 700 ? 18 : n <= 2000 ? 11 : 8, gap = size > 10 ? 2 : 1;
  const cols = Math.max(1, Math.floor((w + gap) / (size + gap)));
  return { size, gap, cols, step: size + gap, rows: Math.ceil(n / cols) };
}

// sign tells failed (a cross) and running (a dot) from the rest for who sees no colours.
function sign(x, kind, px, py, size, colour) {
  const mid = size / 2, far = size * 0.22;
  x.beginPath();
  if (kind === "bad") for (const k of [-1, 1]) { x.moveTo(px + mid - far, py + mid - k * far); x.lineTo(px + mid + far, py + mid + k * far); }
  else if (kind === "run") x.arc(px + mid, py + mid, size * 0.16, 0, 7);
  else return;
  x.lineWidth = Math.max(1.2, size / 9);
  x.fillStyle = x.strokeStyle = colour;
  if (kind === "bad") x.stroke(); else x.fill();
}

export function Heat({ grid, label, hit, tip }) {
  const n = grid.cells.length;
  return html`<${Picture} label=${label} height=${(w) => { const c = cellsOf(n, w); return Math.max(1, c.rows * c.step); }}
    draw=${(x, w, ink) => {
      const c = cellsOf(n, w);
      for (let i = 0; i < n; i++) {
        x.fillStyle = ink[kind(grid.legend[grid.cells[i]])];
        x.beginPath();
        const px = (i % c.cols) * c.step, py = Math.floor(i / c.cols) * c.step;
        x.roundRect(px, py, c.size, c.size, c.size > 10 ? 2.5 : 1);
        x.fill();
        sign(x, kind(grid.legend[grid.cells[i]]), px, py, c.size, ink.panel);
      }
    }}
    hit=${hit && ((px, py, w) => hit(at(n, px, py, w)))} tip=${tip && ((px, py, w) => tip(at(n, px, py, w)))} />`;
}
function at(n, x, y, w) {
  const c = cellsOf(n, w), col = Math.floor(x / c.step), i = Math.floor(y / c.step) * c.cols + col;
  return col < c.cols && i < n ? i : -1;
}

// rowsOf puts the bars of a lane into as few rows as there are at once.
function rowsOf(bars) {
  const ends = [];
  return bars.map((b) => {
    let r = ends.findIndex((e) => e <= b.start + 1e-6);
    if (r < 0) r = ends.push(0) - 1;
    ends[r] = b.end;
    return r;
  });
}

const left = 76, laneGap = 12;
export function Lanes({ line, label, hit }) {
  const all = (new Date(line.to) - new Date(line.from)) / 1000 || 1;
  const lanes = line.lanes.map((l) => {
    const bars = [...(l.bars || [])].sort((a, b) => a.start - b.start);
    const rows = rowsOf(bars), n = l.bars ? Math.max(1, ...rows.map((r) => r + 1)) : 1;
    const h = l.bars ? Math.max(2, Math.min(15, Math.floor(160 / n))) : 64;
    return { ...l, bars, rows, h, high: Math.max(n * h, 15), most: Math.max(1, ...(l.busy || [])) };
  });
  let y = 0;
  for (const l of lanes) { l.y = y; y += l.high + laneGap; }
  const total = Math.max(20, y);
  const seconds = (x, w) => ((x - left) / (w - left)) * all;
  return html`<${Picture} label=${label} height=${() => total}
    draw=${(x, w, ink) => {
      const px = (s) => left + (s / all) * (w - left);
      const fell = (at, l) => { // where one failed, below its lane: seen without colours, too, and where bars are thin
        const y = l.y + l.high + 1;
        x.beginPath();
        x.moveTo(at, y); x.lineTo(at - 4, y + 7); x.lineTo(at + 4, y + 7);
        x.fill();
      };
      x.textBaseline = "middle";
      x.font = "13px system-ui, DejaVu Sans, sans-serif";
      for (const l of lanes) {
        x.fillStyle = ink.text;
        x.fillText(l.peer_name || l.peer.slice(0, 6), 0, l.y + Math.min(l.high, 40) / 2, left - 8);
        l.bars.forEach((b, i) => {
          x.fillStyle = ink[b.open ? "run" : kind(b.state)];
          const from = px(b.start), to = px(b.end);
          const wide = Math.max(1, to - from - (to - from > 3 ? 1 : 0)), y = l.y + l.rows[i] * l.h, high = l.h > 3 ? l.h - 1 : l.h;
          if (kind(b.state) === "run" || b.open) for (let s = 0; s < wide; s += 4) x.fillRect(from + s, y, Math.min(3, wide - s), high);
          else x.fillRect(from, y, wide, high);
          if (kind(b.state) === "bad") fell(to, l);
        });
        (l.busy || []).forEach((v, i) => {
          const from = px(i * line.step), wide = Math.max(1, px(line.step) - left), h = (v / l.most) * l.high;
          x.fillStyle = ink.ok;
          x.fillRect(from, l.y + l.high - h, wide, h);
          if (l.bad?.[i]) { x.fillStyle = ink.bad; x.fillRect(from, l.y + l.high - 4, wide, 4); fell(from + wide / 2, l); }
        });
      }
    }}
    hit=${hit && ((px, py, w) => {
      const l = lanes.find((l) => py >= l.y && py < l.y + l.high), s = seconds(px, w);
      const thin = (2 * all) / (w - left); // what is shorter is drawn, too
      const i = l ? l.bars.findLastIndex((b, i) => b.start <= s && s <= Math.max(b.end, b.start + thin) && Math.floor((py - l.y) / l.h) === l.rows[i]) : -1;
      return i >= 0 ? hit(l.bars[i]) : "";
    })} />`;
}
