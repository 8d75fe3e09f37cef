// Owns the tokens on the page, and the card that says how one of them came about.
import { mark, ms } from "./timeline.js";

// Elements are made of text alone: nothing that came from a model or a server is ever read as HTML.
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

const visible = (text) => text.replaceAll("\n", "↵\n").replaceAll("\t", "⇥\t") || "∅";
const inChip = (text) => text.replaceAll("\n", "↵").replaceAll("\t", "⇥").replaceAll(" ", "␣") || "∅";

// Shows tokens in `area`, and in `card` how the one came about that the pointer or the focus is on.
export class TokenView {
  constructor(area, card) {
    Object.assign(this, { area, card, shown: [] }); // shown: tokens, each with its element and iteration
    for (const kind of ["pointerover", "focusin"]) {
      area.addEventListener(kind, (event) => {
        const entry = this.entryOf(event);
        if (entry) this.showCard(entry);
      });
    }
    for (const kind of ["pointerleave", "focusout", "scroll"]) area.addEventListener(kind, () => this.hideCard());
    area.addEventListener("keydown", (event) => this.walk(event));
  }

  clear() {
    this.hideCard();
    this.shown = [];
    this.area.replaceChildren();
  }

  add(iteration) {
    if (iteration.is_held) return;
    const isAtEnd = this.area.scrollTop + this.area.clientHeight >= this.area.scrollHeight - 40;
    iteration.element = make("span", { class: "iteration" });
    iteration.tokens.forEach((token, place) => {
      const isReplacing = place === iteration.num_accepted && iteration.drafts.length > iteration.num_accepted;
      const kinds = ["token", token.is_forced ? "forced" : token.is_accepted ? "accepted" : "target"];
      if (token.is_forced && token.is_accepted) kinds.push("both");
      if (token.allowed?.is_text_forced) kinds.push("spelled");
      if (isReplacing) kinds.push("rejecting");
      const at = this.shown.length;
      const element = make("span", { class: kinds.join(" "), tabindex: at ? -1 : 0, "data-at": at }, visible(token.text));
      this.shown.push({ element, token, iteration, rejected: isReplacing ? iteration.drafts.slice(place) : [] });
      iteration.element.append(element);
    });
    this.area.append(iteration.element);
    if (isAtEnd) this.area.scrollTop = this.area.scrollHeight;
  }

  // Share of forced tokens; null without a grammar.
  forcedShare() {
    if (!this.shown.some(({ token }) => token.allowed)) return null;
    return this.shown.filter(({ token }) => token.is_forced).length / this.shown.length;
  }

  showCard(entry) {
    this.hideCard();
    this.card.replaceChildren(...cardOf(entry));
    this.card.hidden = false;
    this.described = entry.element;
    this.described.setAttribute("aria-describedby", this.card.id);
    place(this.card, entry.element.getClientRects()[0] ?? entry.element.getBoundingClientRect());
    mark(entry.iteration);
  }

  // Whether one was shown.
  hideCard() {
    const wasShown = !this.card.hidden;
    this.card.hidden = true;
    this.described?.removeAttribute("aria-describedby");
    mark(null);
    return wasShown;
  }

  entryOf(event) {
    return this.shown[event.target.closest(".token")?.dataset.at];
  }

  walk(event) {
    const at = this.shown.indexOf(this.entryOf(event));
    const last = this.shown.length - 1;
    const next = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: last }[event.key];
    if (at < 0 || !this.shown[next]) return;
    event.preventDefault();
    this.shown[at].element.tabIndex = -1;
    this.shown[next].element.tabIndex = 0;
    this.shown[next].element.focus();
  }
}

function cameHow({ token, iteration }) {
  const how = token.is_accepted ? "drafted, and accepted by the target"
    : iteration.is_prefill ? "chosen by the target, after the prompt" : "chosen by the target";
  return token.is_forced ? `forced by the grammar; ${how}` : how;
}

function line(text, kind = "soft") {
  return make("p", { class: kind }, text);
}

function chips(tokens, tag, kindOf = () => "") {
  const chip = (token) => make(tag, { class: kindOf(token), title: `token ${token.id}` }, inChip(token.text));
  return make("div", { class: "chips" }, ...tokens.map(chip));
}

function cardOf(entry) {
  const { token, iteration, rejected } = entry;
  const accepted = iteration.drafts.slice(0, iteration.num_accepted);
  const where = iteration.is_prefill ? "the pass over the prompt"
    : `iteration ${iteration.number}, which gave ${iteration.tokens.length} tokens`;
  const parts = [line(inChip(token.text), "what"), line(cameHow(entry), ""),
    line(`token ${token.id} · ${where} in ${ms(iteration.end_ms - iteration.begin_ms)}`)];
  if (rejected.length) parts.push(line("Rejected drafts from here on"), chips(rejected, "s"));
  if (accepted.length) parts.push(line("Accepted drafts of the iteration"), chips(accepted, "code", () => "drafted"));
  if (!token.allowed) return [...parts, line("Every token was allowed: there is no grammar here")];
  const { num_tokens: number, sample } = token.allowed;
  const which = `${token.allowed.is_text_forced && number > 1 ? ", ways to spell the one text that could come" : ""}${
    sample.length < number ? "; the first of them:" : ":"}`;
  return [...parts, line(`The grammar allowed ${number.toLocaleString("en")} ${number === 1 ? "token" : "tokens"}${which}`),
    chips(sample, "code", (one) => (one.id === token.id ? "own" : ""))];
}

function place(card, at) {
  const below = at.bottom + 8;
  const isAbove = below + card.offsetHeight > innerHeight && at.top > card.offsetHeight + 8;
  card.style.left = `${Math.max(10, Math.min(at.left, innerWidth - card.offsetWidth - 10))}px`;
  card.style.top = `${isAbove ? at.top - card.offsetHeight - 8 : Math.max(10, Math.min(below, innerHeight - card.offsetHeight - 10))}px`;
}
