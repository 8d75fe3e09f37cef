// openai for Node.js, with zod: chat and responses.
import OpenAI from "openai";
import { zodFunction, zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";
import { check, KEY, MODEL, QUESTION, run, SENTENCE, URL } from "./client_case.mjs";

const client = new OpenAI({ baseURL: `${URL}/v1`, apiKey: KEY, maxRetries: 0, timeout: 60_000 });
const person = z.object({ name: z.string().max(20), age: z.number().int() });
const asked = { model: MODEL, messages: [{ role: "user", content: SENTENCE }] };

await run({
  async structured() {
    const response_format = zodResponseFormat(person, "person");
    const chat = await client.chat.completions.parse({ ...asked, response_format });
    const text = { format: zodTextFormat(person, "person") };
    const response = await client.responses.parse({ model: MODEL, input: SENTENCE, text });
    for (const one of [chat.choices[0].message.parsed, response.output_parsed])
      check(typeof one.name === "string" && Number.isInteger(one.age), "no person");
  },
  async tools() {
    const called = [];
    const weather = zodFunction({
      name: "get_weather",
      description: "Weather of a city",
      parameters: z.object({ city: z.string().max(20) }),
      function: ({ city }) => (called.push(city), "rain"),
    });
    const runner = client.chat.completions.runTools({
      model: MODEL,
      messages: [{ role: "user", content: QUESTION }],
      tools: [weather],
      tool_choice: { type: "function", function: { name: "get_weather" } },
      stream: true,
    });
    await runner.done();
    check(called.length === 1 && typeof called[0] === "string", "no call");
    check(runner.messages.some((one) => one.role === "tool"), "no result");
  },
  async streaming() {
    const cold = { ...asked, temperature: 0 };
    const whole = await client.chat.completions.create(cold);
    const chat = client.chat.completions.stream(cold);
    check((await chat.finalContent()) === whole.choices[0].message.content, "another answer");
    const input = { model: MODEL, input: SENTENCE, temperature: 0 };
    const response = await client.responses.create(input);
    const streamed = await client.responses.stream(input).finalResponse();
    check(streamed.output_text === response.output_text, "another response");
  },
  async errors() {
    try {
      await client.chat.completions.create({ ...asked, model: "another" });
    } catch (error) {
      check(error instanceof OpenAI.NotFoundError, String(error));
      check(error.code === "model_not_found", error.code);
      return;
    }
    throw new Error("no error");
  },
});
