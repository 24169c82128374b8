// Talks with a model by OpenAI's own client, and prints what it has got as JSON.
//   node openai_client.mjs CLIENT_MODULE '{"apiKey", "baseURL", "model"}'
const [module, given] = process.argv.slice(2);
const { default: OpenAI } = await import(module);
const { model, ...options } = JSON.parse(given);
const client = new OpenAI({ ...options, maxRetries: 0 });
const messages = [{ role: "user", content: "Hello" }];

const stream = client.responses.stream({ model, input: "Hello" });
let text = "";
stream.on("response.output_text.delta", (event) => { text += event.delta; });
const final = await stream.finalResponse();
const again = await client.responses.retrieve(final.id);
const rest = await client.responses.retrieve(final.id, { stream: true, starting_after: 2 });
const numbers = [];
for await (const event of rest) numbers.push(event.sequence_number);
const chat = await client.chat.completions.create({ model, messages });
const chunks = client.chat.completions.stream({ model, messages });
const refused = await client.responses.create({ model, input: "Hello", prompt: { id: "p" } }).catch((error) => error);
const missing = await client.responses.retrieve("resp_none").catch((error) => error);
const strange = await new OpenAI({ ...options, apiKey: "aes_none", maxRetries: 0 }).models.list().catch((error) => error);
console.log(JSON.stringify({
  text,
  final: final.output.at(-1).content[0].text,
  again: again.output_text,
  numbers,
  chat: chat.choices[0].message.content,
  streamed: await chunks.finalContent(),
  refused: refused instanceof OpenAI.BadRequestError && refused.param,
  missing: missing instanceof OpenAI.NotFoundError,
  strange: strange instanceof OpenAI.AuthenticationError,
}));
