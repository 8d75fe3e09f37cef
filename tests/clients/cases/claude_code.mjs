// Claude Code, the command line: messages, and functions of an MCP server.
import { execFile } from "node:child_process";
import { mkdirSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { promisify } from "node:util";
import { check, KEY, MODEL, QUESTION, run, SENTENCE, serveWeather, URL } from "./client_case.mjs";

const HERE = import.meta.dirname;
const HOME = `${HERE}/home`;
const CALL = "mcp__weather__get_weather";

/** The server, behind what makes a small model decided: it is cold, calls once where it can, and
 * then answers. */
function decided(request, response) {
  const pieces = [];
  request.on("data", (piece) => pieces.push(piece));
  request.on("end", async () => {
    const text = Buffer.concat(pieces).toString();
    const answer = await fetch(URL + request.url, {
      method: request.method,
      headers: { "content-type": "application/json", "x-api-key": KEY },
      body: text ? made(text) : undefined,
    });
    response.writeHead(answer.status, { "content-type": answer.headers.get("content-type") });
    for await (const piece of answer.body ?? []) response.write(piece);
    response.end();
  });
}

/** A body, with what decides the model. */
function made(text) {
  const body = JSON.parse(text);
  const mayCall = body.tools?.length && !text.includes('"tool_result"');
  const type = mayCall ? "any" : "none";
  return JSON.stringify({ ...body, temperature: 0, tool_choice: { type } });
}

/** What `claude -p` says: its events. */
async function claude(prompt, options = [], model = MODEL) {
  const server = createServer(decided).listen(0, "127.0.0.1");
  await new Promise((listening) => server.once("listening", listening));
  rmSync(HOME, { recursive: true, force: true });
  mkdirSync(HOME);
  const env = {
    PATH: process.env.PATH,
    HOME,
    ANTHROPIC_BASE_URL: `http://127.0.0.1:${server.address().port}`,
    ANTHROPIC_API_KEY: KEY,
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
    CLAUDE_CODE_MAX_RETRIES: "0",
  };
  const plain = ["--bare", "--system-prompt", "You are an agent.", "--tools", ""];
  const told = ["--output-format", "stream-json", "--verbose", "--max-turns", "3"];
  const command = ["-p", ...plain, ...told, "--model", model, ...options, "--", prompt];
  const program = `${HERE}/node_modules/.bin/claude`;
  const child = promisify(execFile)(program, command, { env, cwd: HOME });
  child.child.stdin.end();
  const { stdout } = await child.catch((failed) => failed);
  server.close();
  const lines = stdout.split("\n").filter(Boolean);
  return lines.map((line) => JSON.parse(line));
}

const cells = {
  async structured() {
    const name = { type: "string", maxLength: 20 };
    const properties = { name, age: { type: "integer" } };
    const required = ["name", "age"];
    const closed = { type: "object", properties, required, additionalProperties: false };
    const said = await claude(SENTENCE, ["--json-schema", JSON.stringify(closed)]);
    const person = said.at(-1).structured_output;
    check(typeof person.name === "string" && Number.isInteger(person.age), "no person");
  },
  async tools() {
    const weather = { command: "node", args: [import.meta.filename, "mcp"] };
    const servers = JSON.stringify({ mcpServers: { weather } });
    const said = await claude(QUESTION, ["--mcp-config", servers, "--allowedTools", CALL]);
    const blocks = said.flatMap((event) => event.message?.content ?? []);
    const call = blocks.find((block) => block.type === "tool_use");
    const result = blocks.find((block) => block.type === "tool_result");
    check(call.name === CALL && typeof call.input.city === "string", "no call");
    check(JSON.stringify(result.content).includes("rain"), JSON.stringify(result));
    check(!said.at(-1).is_error && said.at(-1).result, JSON.stringify(said.at(-1)));
  },
  async streaming() {
    const said = await claude(SENTENCE, ["--include-partial-messages"]);
    const deltas = said.map((event) => event.event?.delta?.text ?? "");
    check(said.at(-1).result && deltas.join("") === said.at(-1).result, JSON.stringify(deltas));
  },
  async errors() {
    const said = (await claude(SENTENCE, [], "another")).at(-1);
    check(said.is_error && said.api_error_status === 404, JSON.stringify(said));
  },
};

if (process.argv[2] === "mcp") serveWeather();
else await run(cells);
