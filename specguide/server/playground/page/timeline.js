// Owns the timeline of a request's iterations.

const LABELS_PX = 106;
const LANE_PX = 18;

export const ms = (value) => `${value < 10 ? value.toFixed(1) : Math.round(value)} ms`;

// Makes one iteration stand out, among the tokens and on the timeline; null: none.
export function mark(iteration) {
  document.querySelectorAll(".current").forEach((element) => element.classList.remove("current"));
  iteration?.element?.classList.add("current");
  iteration?.bar?.classList.add("current");
}

export class Timeline {
  constructor(svg, scroll) {
    Object.assign(this, { svg, scroll, isDrawn: true });
    addEventListener("resize", () => this.redraw());
    this.clear();
  }

  clear() {
    Object.assign(this, { iterations: [], spans: null, numDecoded: 0 });
    this.redraw();
  }

  add(iteration) {
    iteration.number = iteration.is_prefill ? 0 : this.numDecoded += 1;
    this.iterations.push(iteration);
    this.redraw();
  }

  showSpans(spans) {
    this.spans = spans;
    this.redraw();
  }

  endMs() {
    return Math.max(0, ...this.iterations.map((one) => one.end_ms));
  }

  note() {
    const total = (name) => this.iterations.reduce((sum, one) => sum + (one[name] ?? 0), 0);
    const knowsGrammar = this.iterations.some((one) => one.grammar_ms !== null);
    const grammar = total("grammar_ms");
    const exposed = Math.min(grammar, total("grammar_exposed_ms"));
    const held = this.iterations.filter((one) => one.is_held).length;
    return "Bars: from an iteration's launch to its results, with the tokens that it gave"
      + (held ? `; grey: held, its rows were late (${held})` : "")
      + (knowsGrammar ? `. Grammar: ${ms(grammar)} in callbacks, of which ${ms(exposed)} (red) kept the models waiting`
        + (this.spans ? "." : "; drawn from each iteration's begin.") : ". Grammar: its time on a GPU shows in a traced engine only.")
      + (this.spans ? " Below: the engine's own trace." : "");
  }

  redraw() {
    if (!this.isDrawn) return;
    this.isDrawn = false;
    requestAnimationFrame(() => {
      this.isDrawn = true;
      this.draw();
    });
  }

  // Time runs from left to right; the shortest common iteration is still wide enough to point at.
  draw() {
    if (!this.iterations.length) return this.svg.replaceChildren();
    const end = this.endMs();
    const room = this.scroll.clientWidth - LABELS_PX - 16;
    this.scale = Math.max(room / Math.max(end, 1), 12 * this.iterations.length / Math.max(end, 1));
    const isAtEnd = this.scroll.scrollLeft + this.scroll.clientWidth >= this.scroll.scrollWidth - 4;
    this.svg.replaceChildren();
    const tracks = this.spans ? [...new Set(this.spans.map((span) => span.track))] : [];
    const lanes = ["iterations", "", "grammar", "host waits", ...tracks];
    this.svg.setAttribute("width", LABELS_PX + end * this.scale + 12);
    this.svg.setAttribute("height", (lanes.length + 1) * LANE_PX + 4);
    lanes.forEach((label, lane) => this.text(label, 10, lane, ""));
    this.drawIterations();
    for (const span of this.spans ?? []) {
      const kind = span.name.startsWith("wait") ? "wait" : span.track === "forward stream" ? "gain" : span.track === "host" ? "prefill" : "hidden-time";
      this.bar(lanes.indexOf(span.track), span.begin_ms, span.end_ms, kind, `${span.name}: ${ms(span.end_ms - span.begin_ms)}`);
    }
    this.drawAxis(end, lanes.length);
    if (isAtEnd) this.scroll.scrollLeft = this.scroll.scrollWidth;
    return undefined;
  }

  drawIterations() {
    let lane = 0;
    let last = -1;
    for (const one of this.iterations) {
      lane = one.begin_ms < last ? 1 - lane : 0; // the host launches the next before it has read the last
      last = one.end_ms;
      const gained = one.tokens.length;
      const what = one.is_held ? "held" : one.is_prefill ? "prompt" : `iteration ${one.number}: ${gained} tokens`;
      one.bar = this.bar(lane, one.begin_ms, one.end_ms, one.is_held ? "held" : one.is_prefill ? "prefill" : "gain",
        `${what}, ${ms(one.end_ms - one.begin_ms)}; drafts: ${one.drafts.length}, accepted: ${one.num_accepted}`);
      if (!one.is_prefill && !one.is_held) {
        one.bar.style.opacity = 0.3 + 0.7 * gained / Math.max(gained, one.drafts.length + 1);
        this.text(gained, LABELS_PX + (one.begin_ms + one.end_ms) / 2 * this.scale, lane, "bar-text");
      }
      one.bar.addEventListener("pointerenter", () => mark(one));
      if (one.grammar_ms !== null) {
        const exposed = Math.min(one.grammar_ms, one.grammar_exposed_ms);
        this.bar(2, one.begin_ms, one.begin_ms + exposed, "exposed-time", `grammar exposed: ${ms(exposed)}`);
        this.bar(2, one.begin_ms + exposed, one.begin_ms + one.grammar_ms, "hidden-time", `grammar hidden: ${ms(one.grammar_ms - exposed)}`);
      }
      this.bar(3, one.end_ms - one.wait_ms, one.end_ms, "wait", `the host waited ${ms(one.wait_ms)}`);
    }
  }

  drawAxis(end, lane) {
    const step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000].find((one) => one * this.scale >= 70) ?? 20000;
    for (let at = 0; at <= end; at += step) {
      const x = LABELS_PX + at * this.scale;
      const tick = document.createElementNS(this.svg.namespaceURI, "line");
      for (const [name, value] of Object.entries({ x1: x, x2: x, y1: 0, y2: lane * LANE_PX + 4 })) tick.setAttribute(name, value);
      this.svg.prepend(tick);
      this.text(at >= 1000 ? `${at / 1000} s` : `${at} ms`, x + 3, lane, "");
    }
  }

  bar(lane, begin, end, kind, title) {
    const rect = document.createElementNS(this.svg.namespaceURI, "rect");
    const place = { class: kind, x: LABELS_PX + begin * this.scale, y: lane * LANE_PX + 2, height: LANE_PX - 4, rx: 2,
      width: Math.max(0, (end - begin) * this.scale - (lane < 2 ? 1 : 0)) };
    for (const [name, value] of Object.entries(place)) rect.setAttribute(name, value);
    const words = document.createElementNS(this.svg.namespaceURI, "title");
    words.textContent = title;
    rect.append(words);
    this.svg.append(rect);
    return rect;
  }

  text(text, x, lane, kind) {
    const element = document.createElementNS(this.svg.namespaceURI, "text");
    for (const [name, value] of Object.entries({ x, y: lane * LANE_PX + 13, class: kind })) element.setAttribute(name, value);
    element.textContent = text;
    this.svg.append(element);
  }
}

