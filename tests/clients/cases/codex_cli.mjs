// codex, the command line: responses, and functions of an MCP server.
import { spawn } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { check, KEY, MODEL, QUESTION, run, SENTENCE, serveWeather, URL } from "./client_case.mjs";

const HERE = import.meta.dirname;
const HOME = `${HERE}/home`;
const CALL = { type: "function", name: "mcp__weather__get_weather" };

/** The server, behind what makes a small model decided: it is cold, calls once where it can, and
 * then answers. */
function decided(request, response) {
  const pieces = [];
  request.on("data", (piece) => pieces.push(piece));
  request.on("end", async () => {
    const body = JSON.parse(Buffer.concat(pieces).toString() || "{}");
    const mayCall = body.tools?.some((tool) => tool.type === "namespace");
    const hasCalled = body.input?.some((item) => item.type === "function_call_output");
    const choice = mayCall && !hasCalled ? CALL : "none";
    const answer = await fetch(URL + request.url, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${KEY}` },
      body: JSON.stringify({ ...body, temperature: 0, tool_choice: choice }),
    });
    response.writeHead(answer.status, { "content-type": answer.headers.get("content-type") });
    for await (const piece of answer.body) response.write(piece);
    response.end();
  });
}

function configure(url, hasTools) {
  const weather = `[mcp_servers.weather]
command = "node"
args = ["${import.meta.filename}", "mcp"]
default_tools_approval_mode = "approve"
`;
  rmSync(HOME, { recursive: true, force: true });
  mkdirSync(HOME);
  writeFileSync(`${HOME}/instructions.md`, "You are an agent.");
  writeFileSync(
    `${HOME}/config.toml`,
    `model_provider = "specguide"
model_instructions_file = "${HOME}/instructions.md"
include_environment_context = false
include_permissions_instructions = false
web_search = "${hasTools ? "live" : "disabled"}"
[agents]
enabled = false
[skills]
include_instructions = false
[features]
goals = false
shell_tool = false
[model_providers.specguide]
name = "specguide"
base_url = "${url}/v1"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
${hasTools ? weather : ""}`,
  );
}

/** What \`codex exec\` says, by the types of its items and events. */
async function codex(prompt, { model = MODEL, hasTools = false, more = [] } = {}) {
  const server = createServer(decided).listen(0, "127.0.0.1");
  await new Promise((listening) => server.once("listening", listening));
  configure(`http://127.0.0.1:${server.address().port}`, hasTools);
  const options = ["exec", "--skip-git-repo-check", "-s", "read-only", "--json", "-m", model];
  const command = [`${HERE}/node_modules/@openai/codex/bin/codex.js`, ...options, ...more, prompt];
  const child = spawn("node", command, {
    env: { ...process.env, CODEX_HOME: HOME },
    stdio: ["ignore", "pipe", "ignore"],
    cwd: HOME,
  });
  const said = {};
  for await (const line of createInterface({ input: child.stdout })) {
    if (!line.startsWith("{")) continue;
    const event = JSON.parse(line);
    const told = event.type === "item.completed" ? event.item : event;
    (said[told.type] ??= []).push(told);
  }
  server.close();
  return said;
}

const cells = {
  async structured() {
    const schema = `${HERE}/person.json`;
    const name = { type: "string", maxLength: 20 };
    const properties = { name, age: { type: "integer" } };
    const required = ["name", "age"];
    const closed = { type: "object", properties, required, additionalProperties: false };
    writeFileSync(schema, JSON.stringify(closed));
    const said = await codex(SENTENCE, { more: ["--output-schema", schema] });
    const person = JSON.parse(said.agent_message.at(-1).text);
    check(typeof person.name === "string" && Number.isInteger(person.age), "no person");
  },
  async tools() {
    const said = await codex(QUESTION, { hasTools: true });
    const [call] = said.mcp_tool_call;
    check(typeof call.arguments.city === "string" && call.status === "completed", "no call");
    check(said["turn.completed"] && said.agent_message.at(-1).text, JSON.stringify(said));
  },
  async streaming() {
    const said = await codex(SENTENCE);
    check(said["turn.completed"] && said.agent_message.at(-1).text, JSON.stringify(said));
  },
  async errors() {
    const said = await codex(SENTENCE, { model: "another" });
    check(said["turn.failed"][0].error.message.includes("does not exist"), JSON.stringify(said));
  },
};

if (process.argv[2] === "mcp") serveWeather();
else await run(cells);
