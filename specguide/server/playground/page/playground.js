// Owns what the playground does: the form, the request, and reading its stream.
import { Timeline, ms } from "./timeline.js";
import { TokenView, make } from "./tokens.js";

const byId = (id) => document.getElementById(id);
const PERSON = {
  type: "object",
  properties: {
    name: { type: "string", description: "full name" },
    age: { type: "integer" },
    occupation: { type: "string" },
    city: { type: "string" },
    email: { type: "string" },
  },
  required: ["name", "age", "occupation", "city", "email"],
  additionalProperties: false,
};
const LETTER = "Hello, I am Maria Keller and I am writing about the position you advertised. I am 34 years old and have "
  + "worked as a civil engineer in Zurich for the last nine years, mostly on bridges. You can reach me at "
  + "maria.keller@example.org or by telephone in the evening.";
const WEATHER = [{
  type: "function",
  function: {
    name: "get_weather",
    description: "Weather of a city",
    parameters: {
      type: "object",
      properties: { city: { type: "string", maxLength: 20 }, unit: { enum: ["celsius", "fahrenheit"] } },
      required: ["city", "unit"],
      additionalProperties: false,
    },
  },
}];
const EXAMPLES = {
  "A letter, by a schema": { message: LETTER, kind: "json_schema", guide: PERSON },
  "A tool call": { message: "What is the weather in Paris, in celsius?", tools: WEATHER, toolChoice: "required" },
  "A date, by a regular expression": { message: "When was it opened? The bridge was opened on 2021-05-04.", kind: "regex", guide: "[0-9]{4}-[0-9]{2}-[0-9]{2}" },
  "A word, by a grammar": { message: "The bridge in Riga was opened in 1932. In which city is it?", kind: "grammar", guide: 'root ::= [A-Z] [a-z]+' },
  "Free text": { message: "Give a title: the bridge in Riga was opened in 1932." },
};
const GUIDE_LABELS = { json_schema: "Schema", regex: "Regular expression", grammar: "Grammar" };

let isModelKnown = false;
let running = null;
const timeline = new Timeline(byId("timeline"), byId("timeline-scroll"));
const tokens = new TokenView(byId("stream"), byId("card"));

function headers() {
  const key = sessionStorage.getItem("specguide-key");
  return { "Content-Type": "application/json", ...(key ? { Authorization: `Bearer ${key}` } : {}) };
}

async function failureOf(answer) {
  if (answer.status === 401) askForKey();
  const body = await answer.json().catch(() => null);
  const error = body?.error;
  return error ? `${error.message}${error.param ? ` (${error.param})` : ""}` : `the server answered ${answer.status}`;
}

function askForKey() {
  byId("key-form").hidden = false;
  byId("key").focus();
}

async function findReadyGrammars() {
  const answer = await fetch("playground/ready-grammars", { headers: headers() });
  if (!answer.ok) return;
  const group = make("optgroup");
  group.label = "Ready grammars";
  for (const { name, about, sample } of await answer.json()) {
    EXAMPLES[name] = { message: `${about}\nFor example:\n${sample}\n\nWrite another one.`, kind: "grammar", guide: name };
    group.append(make("option", {}, name));
  }
  byId("example").querySelector("optgroup")?.remove();
  byId("example").append(group);
}

async function findModel() {
  const answer = await fetch("v1/models", { headers: headers() });
  if (!answer.ok) throw new Error(await failureOf(answer));
  byId("key-form").hidden = true;
  const models = (await answer.json()).data;
  const [served] = models;
  const adapters = models.filter((one) => one.parent);
  byId("adapter").replaceChildren(make("option", { value: served.id }, "none"), ...adapters.map(({ id }) => make("option", {}, id)));
  byId("adapter-row").hidden = adapters.length === 0;
  isModelKnown = true;
  await findReadyGrammars();
  byId("model").textContent = `${served.id} · ${served.max_model_len} tokens of context`;
}

// The form

function parsed(area) {
  const text = area.value.trim();
  return text ? JSON.parse(text) : null;
}

function checkJson(area) {
  const note = byId(`${area.id}-check`);
  const isJson = area.dataset.json && area.value.trim();
  let wrong = null;
  if (isJson) {
    try {
      const value = JSON.parse(area.value);
      if (area.dataset.json === "array" && !Array.isArray(value)) wrong = "this must be a list: [ … ]";
    } catch (error) {
      wrong = error.message;
    }
  }
  area.setAttribute("aria-invalid", wrong !== null);
  area.setCustomValidity(wrong ?? "");
  note.classList.toggle("wrong", wrong !== null);
  note.textContent = wrong ?? (isJson ? "valid JSON" : "");
}

function showKind() {
  const kind = byId("kind").value;
  const guide = byId("guide");
  byId("guide-field").hidden = !(kind in GUIDE_LABELS);
  guide.required = kind in GUIDE_LABELS;
  byId("guide-label").textContent = GUIDE_LABELS[kind] ?? "";
  if (kind === "json_schema") guide.dataset.json = "any";
  else delete guide.dataset.json;
  checkJson(guide);
}

function showExample() {
  const example = EXAMPLES[byId("example").value];
  const asText = (value) => (value === undefined || typeof value === "string" ? value ?? "" : JSON.stringify(value, null, 2));
  byId("message").value = example.message;
  byId("kind").value = example.kind ?? "text";
  byId("guide").value = asText(example.guide);
  byId("tools").value = asText(example.tools);
  byId("tools-field").open = Boolean(example.tools);
  byId("tool-choice").value = example.toolChoice ?? "auto";
  showKind();
  checkJson(byId("tools"));
}

function requestBody() {
  const body = { model: byId("adapter").value, messages: [...(parsed(byId("history")) ?? []), { role: "user", content: byId("message").value }] };
  const system = byId("system").value.trim();
  if (system) body.messages.unshift({ role: "system", content: system });
  const kind = byId("kind").value;
  const guide = byId("guide").value;
  if (kind === "json_schema") body.response_format = { type: kind, json_schema: { name: "answer", schema: JSON.parse(guide) } };
  else if (kind !== "text") body.response_format = { type: kind, ...(kind === "json_object" ? {} : { [kind]: guide }) };
  const tools = parsed(byId("tools"));
  if (tools?.length) Object.assign(body, { tools, tool_choice: byId("tool-choice").value });
  for (const name of ["temperature", "top_p", "top_k", "seed", "max_tokens"]) {
    if (byId(name).value !== "") body[name] = Number(byId(name).value);
  }
  return body;
}

// The run

async function run(event) {
  event?.preventDefault();
  if (running) return;
  for (const area of byId("request").querySelectorAll(":invalid")) area.closest("details")?.setAttribute("open", "");
  if (!byId("request").reportValidity()) return;
  running = new AbortController();
  byId("run").disabled = true;
  byId("stop").disabled = false;
  clear();
  try {
    if (!isModelKnown) await findModel();
    const answer = await fetch("playground/generate", {
      method: "POST", headers: headers(), body: JSON.stringify(requestBody()), signal: running.signal });
    if (!answer.ok) throw new Error(await failureOf(answer));
    let isWhole = false;
    for await (const told of events(answer.body)) {
      take(told);
      isWhole ||= Boolean(told.error || told.finish_reason);
    }
    if (!isWhole) fail("the stream was cut before the answer's end");
  } catch (error) {
    if (error.name === "AbortError") byId("ending").textContent = "stopped";
    else fail(error.message);
  } finally {
    running = null;
    byId("run").disabled = false;
    byId("stop").disabled = true;
  }
}

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      if (part.startsWith("data: ") && part !== "data: [DONE]") yield JSON.parse(part.slice(6));
    }
  }
}

function clear() {
  tokens.clear();
  timeline.clear();
  byId("error").hidden = true;
  for (const id of ["ending", "timeline-note"]) byId(id).textContent = "";
  for (const id of ["num-tokens", "num-iterations", "acceptance", "speed", "forced"]) byId(id).textContent = "–";
}

function fail(message) {
  byId("error").textContent = message;
  byId("error").hidden = false;
}

function take(told) {
  if (told.error) fail(told.error.message);
  if (told.type === "spans") timeline.showSpans(told.spans);
  for (const iteration of told.iterations ?? []) {
    timeline.add(iteration);
    tokens.add(iteration);
  }
  if (told.type === "delta") showFigures(told);
  byId("timeline-note").textContent = timeline.note();
}

function showFigures(told) {
  const end = timeline.endMs();
  const forced = tokens.forcedShare();
  byId("num-tokens").textContent = told.num_tokens;
  byId("num-iterations").textContent = told.num_iterations;
  byId("acceptance").textContent = told.acceptance_length.toFixed(2);
  byId("speed").textContent = end > 0 ? Math.round(told.num_tokens / end * 1000) : "–";
  byId("forced").textContent = forced === null ? "–" : `${Math.round(100 * forced)} %`;
  if (!told.finish_reason) return;
  const { compile_s: compile, time_to_first_token_s: first, prompt_tokens: prompt, num_cached: cached } = told.metrics;
  byId("ending").textContent = `ended by ${told.finish_reason} · first token after ${ms(1000 * first)}`
    + `${compile ? ` · grammar compiled in ${ms(1000 * compile)}` : ""} · ${prompt} prompt tokens, ${cached} of them cached`;
}

// The beginning

for (const name of Object.keys(EXAMPLES)) byId("example").append(make("option", {}, name));
byId("example").addEventListener("change", showExample);
byId("kind").addEventListener("change", showKind);
for (const id of ["guide", "tools", "history"]) byId(id).addEventListener("input", (event) => checkJson(event.target));
byId("request").addEventListener("submit", run);
byId("stop").addEventListener("click", () => running?.abort());
byId("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("specguide-key", byId("key").value);
  byId("error").hidden = true;
  findModel().catch((error) => fail(error.message));
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run(event);
  if (event.key === "Escape" && !tokens.hideCard()) running?.abort();
});
showExample();
findModel().catch((error) => fail(error.message));
