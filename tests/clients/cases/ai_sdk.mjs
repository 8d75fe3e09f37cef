// Vercel's AI SDK, with zod.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateObject, generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
import { check, KEY, MODEL, QUESTION, run, SENTENCE, URL } from "./client_case.mjs";

const provider = createOpenAICompatible({
  name: "specguide",
  baseURL: `${URL}/v1`,
  apiKey: KEY,
  supportsStructuredOutputs: true,
});
const model = provider(MODEL);
const person = z.object({ name: z.string().max(20), age: z.number().int() });

await run({
  async structured() {
    const { object } = await generateObject({ model, schema: person, prompt: SENTENCE });
    check(typeof object.name === "string" && Number.isInteger(object.age), "no person");
  },
  async tools() {
    const called = [];
    const weather = tool({
      description: "Weather of a city",
      inputSchema: z.object({ city: z.string().max(20) }),
      execute: async ({ city }) => (called.push(city), "rain"),
    });
    await generateText({
      model,
      tools: { get_weather: weather },
      toolChoice: "required",
      stopWhen: stepCountIs(2),
      prompt: QUESTION,
    });
    check(called.length > 0, "no call");
  },
  async streaming() {
    const { textStream, text } = streamText({ model, prompt: SENTENCE, temperature: 0 });
    let streamed = "";
    for await (const piece of textStream) streamed += piece;
    check(streamed === (await text) && streamed.length > 0, "no text");
  },
  async errors() {
    try {
      await generateText({ model: provider("another"), prompt: SENTENCE, maxRetries: 0 });
    } catch (error) {
      check(error.statusCode === 404, `status ${error.statusCode}`);
      return;
    }
    throw new Error("no error");
  },
});
