// What client_case.py is, for the cases that run with Node.js.
import { createInterface } from "node:readline";

export const URL = process.env.SPECGUIDE_URL ?? "http://127.0.0.1:8000";
export const KEY = process.env.SPECGUIDE_KEY ?? "none";
export const MODEL = process.env.SPECGUIDE_MODEL ?? "small";
export const SENTENCE = "My name is Anna and I am 31 years old.";
export const QUESTION = "I want to get the weather in Riga.";

export function check(holds, words) {
  if (!holds) throw new Error(words);
}

/** Run a file's cases, by their cells, and print what each did as one line of JSON. */
export async function run(cells) {
  for (const [cell, one] of Object.entries(cells)) {
    try {
      await one();
      console.log(JSON.stringify({ cell, outcome: "works" }));
    } catch (error) {
      console.log(JSON.stringify({ cell, outcome: "fails", why: String(error).slice(0, 300) }));
    }
  }
}

/** An MCP server with one tool, over standard input and output. */
export function serveWeather() {
  const city = { type: "string", maxLength: 20 };
  const schema = { type: "object", properties: { city }, required: ["city"] };
  const tool = { name: "get_weather", description: "Weather of a city", inputSchema: schema };
  const answers = {
    initialize: ({ protocolVersion }) => ({
      protocolVersion,
      capabilities: { tools: {} },
      serverInfo: { name: "weather", version: "1" },
    }),
    "tools/list": () => ({ tools: [tool] }),
    "tools/call": () => ({ content: [{ type: "text", text: "rain" }] }),
  };
  createInterface({ input: process.stdin }).on("line", (line) => {
    const { id, method, params } = JSON.parse(line);
    if (id === undefined) return;
    console.log(JSON.stringify({ jsonrpc: "2.0", id, result: answers[method]?.(params) ?? {} }));
  });
}
