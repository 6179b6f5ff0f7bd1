// OpenAI's Node SDK through Baler, against the scripted upstream (`upstream.py`).
// usage: node_sdk.mjs BALER UPSTREAM BALER_TO_NOBODY    (base URLs)

import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import OpenAI from "openai";

const [BALER, UPSTREAM, BALER_TO_NOBODY] = process.argv.slice(2);
const ORIGIN = UPSTREAM.replace(/\/v1$/, "");
// In every text and key, so that `run` can look for them where no content may be.
const MARK = "marigold";
const TIMEOUT_MS = 30_000;
// The upstream remembers names and keys: no other run may have used these.
const RUN = randomBytes(4).toString("hex");

const TOOLS = ["find_orders", "find_stock"].map((name) => ({
  type: "function",
  function: {
    name,
    description: `Looks something up: ${name}.`,
    parameters: { type: "object", properties: { part: { type: "integer" }, query: { type: "string" } } },
  },
}));

const checks = [];
const check = (name, body) => checks.push([name, body]);

const client = (baseURL = BALER, key = "common", options = {}) =>
  new OpenAI({ baseURL, apiKey: `sk-${MARK}-${RUN}-${key}`, maxRetries: 0, timeout: TIMEOUT_MS, ...options });
const user = (content) => ({ role: "user", content });
const create = (messages, { via = client(), headers, ...options } = {}) =>
  via.chat.completions.create({ model: "large-1", messages, ...options }, { headers });
const textOf = (chunks) => chunks.flatMap((chunk) => chunk.choices).map((choice) => choice.delta.content ?? "").join("");
const collect = async (stream) => {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
};
const getJson = async (path) => (await fetch(ORIGIN + path, { signal: AbortSignal.timeout(TIMEOUT_MS) })).json();

// All headers of an answer except the date, what belongs to the connection, and what Baler adds.
const headersOf = (headers) =>
  [...headers].filter(([name]) => !/^(date|connection|keep-alive|transfer-encoding|server-timing|x-baler-.*)$/.test(name)).sort();

// The error of exactly this kind that a promise is rejected with.
const failure = async (kind, promise) => {
  const error = await promise.then(() => assert.fail(`no ${kind.name}`), (error) => error);
  assert.equal(error.constructor, kind, String(error));
  return error;
};

check("models pass through unread", async () => {
  const { data, response } = await client().models.list().withResponse();
  assert.deepEqual(data.data.map((model) => model.id), ["large-1", "small-1"]);
  assert.deepEqual([...response.headers.keys()].filter((name) => name.startsWith("x-baler")), []);
});

check("plain answer", async () => {
  const answer = await create([user(`hello ${MARK}`)]);
  assert.equal(answer.choices[0].message.content, `You said: hello ${MARK}`);
  assert.equal(answer.choices[0].finish_reason, "stop");
  assert.ok(answer.usage.prompt_tokens > 0);
});

check("the upstream gets what was sent", async () => {
  const sent = [];
  const spy = (url, init) => (sent.push(init.body), fetch(url, init));
  const both = [client(BALER, "bytes", { fetch: spy }), client(UPSTREAM, "bytes", { fetch: spy })];
  const messages = [{ role: "system", content: "Zwölf Boxkämpfer \u2028 🥊" }, user(`a ${MARK}\n\ttab`)];
  const [through, direct] = await Promise.all(
    both.map(async (via) => (await create(messages, { via, temperature: 0.3, unknown: [1e21, null] }).withResponse()).response),
  );
  assert.equal(sent[0], sent[1]);
  assert.equal(through.headers.get("x-seen-body"), createHash("sha256").update(sent[0]).digest("hex"));
  for (const name of ["x-seen-body", "x-seen-target", "x-seen-headers"]) assert.equal(through.headers.get(name), direct.headers.get(name));
});

check("headers: the upstream's unchanged, Baler's added", async () => {
  const headers = { "x-test-id": "node-headers" };
  // Two keys that were never used: the length of the answer depends on the prompt cache's figures.
  const both = [client(BALER, "headers"), client(UPSTREAM, "headers-direct")];
  for (const stream of [false, true]) {
    const ask = (via) => create([user(MARK)], { via, stream, headers }).withResponse();
    const [through, direct] = [await ask(both[0]), await ask(both[1])];
    if (stream) await Promise.all([collect(through.data), collect(direct.data)]);
    assert.deepEqual(headersOf(through.response.headers), headersOf(direct.response.headers));
    assert.equal(through.request_id, "req_node-headers");
    const own = (name) => through.response.headers.get(name);
    assert.equal(own("x-ratelimit-remaining-tokens"), "149984");
    assert.match(own("x-baler-action"), /^none; reason=/);
    assert.equal(own("x-baler-policy"), "default");
    assert.match(own("x-baler-request-id"), /^[0-9a-f]{32}$/);
    assert.match(own("x-baler-tokens"), /^before=(\d+); after=\1; window=128000$/);
    assert.match(own("server-timing"), /^upstream;dur=1.5, baler;dur=\d+\.\d{3}$/);
    assert.deepEqual(through.response.headers.getSetCookie().length, 2);
  }
});

check("gzip answer", async () => {
  const { data, response } = await create([user("do: gzip")]).withResponse();
  assert.equal(response.headers.get("content-encoding"), "gzip");
  assert.equal(data.choices[0].message.content, "Done: gzip ");
});

check("stream in order, usage only when asked for", async () => {
  const words = Array.from({ length: 300 }, (_, n) => `${n}.`).join(" ");
  const without = await collect(await create([user(words)], { stream: true }));
  assert.ok(without.length > 300);
  assert.equal(textOf(without), `You said: ${words}`);
  assert.ok(without.every((chunk) => !chunk.usage && chunk.choices.length === 1));
  const asked = await collect(await create([user(words)], { stream: true, stream_options: { include_usage: true } }));
  assert.equal(textOf(asked), `You said: ${words}`);
  assert.equal(asked.findIndex((chunk) => chunk.usage), asked.length - 1);
  assert.deepEqual(asked.at(-1).choices, []);
});

check("stream cut anywhere", async () => {
  assert.equal(textOf(await collect(await create([user("do: torn")], { stream: true }))), "Done: torn Zwölf Boxkämpfer 🥊\u2028日本語");
});

check("stream is not held back", async () => {
  // The upstream goes on only once the client has had the first word.
  const chunks = (await create([user(`do: hold ${RUN}`)], { stream: true }))[Symbol.asyncIterator]();
  const first = [(await chunks.next()).value, (await chunks.next()).value];
  assert.equal(textOf(first), "Done: ");
  await getJson(`/control/release/${RUN}`);
  assert.equal(textOf(await collect({ [Symbol.asyncIterator]: () => chunks })), `hold ${RUN}`);
});

check("aborted stream", async () => {
  const stream = await create([user(`do: endless ${RUN}`)], { stream: true });
  let words = 0;
  for await (const chunk of stream) if (textOf([chunk]) && ++words === 3) stream.controller.abort();
  assert.equal(words, 3);
  assert.deepEqual(await getJson(`/control/await/${RUN}`), { happened: true }, "the upstream is told");
});

check("parallel tool calls, by the SDK's own loop", async () => {
  const used = [];
  const tools = TOOLS.map((tool) => ({
    ...tool,
    function: {
      ...tool.function,
      parse: JSON.parse,
      function: ({ part }) => (used.push([tool.function.name, part]), JSON.stringify({ part, rows: [1, 2, 3] })),
    },
  }));
  for (const stream of [false, true]) {
    const runner = client().chat.completions.runTools({ model: "large-1", messages: [user(`Where is it, ${MARK}?`)], tools, stream });
    assert.equal(await runner.finalContent(), `The tools said ${JSON.stringify({ part: 1, rows: [1, 2, 3] }).length} bytes at last.`);
    assert.deepEqual(used.splice(0), [["find_orders", 0], ["find_stock", 1]]);
    assert.deepEqual(runner.messages.map((message) => message.role), ["user", "assistant", "tool", "tool", "assistant"]);
  }
});

check("the upstream's errors pass through", async () => {
  for (const [status, kind, code] of [
    [401, OpenAI.AuthenticationError, "invalid_api_key"],
    [429, OpenAI.RateLimitError, "rate_limit_exceeded"],
    [400, OpenAI.BadRequestError, "context_length_exceeded"],
    [500, OpenAI.InternalServerError, "internal_error"],
  ]) {
    for (const stream of [false, true]) {
      const ask = (via) => failure(kind, create([user(`do: error ${status}`)], { via, stream, headers: { "x-test-id": `node-${status}` } }));
      const [through, direct] = [await ask(client()), await ask(client(UPSTREAM))];
      assert.deepEqual([through.status, through.code, through.error], [status, code, direct.error]);
      assert.equal(through.requestID, `req_node-${status}`);
      assert.deepEqual(headersOf(through.headers), headersOf(direct.headers));
      assert.equal(through.headers.get("x-baler-error"), null, "it is not Baler's error");
      assert.ok(through.headers.get("x-baler-request-id"));
    }
  }
});

// How the SDK ends: what it made of the answer, or which error it raised.
const outcome = async (baseURL, fault, stream) => {
  const seen = [];
  try {
    const answer = await create([user(`do: fault ${fault}`)], { via: client(baseURL), stream });
    if (!stream) return [answer ?? null];
    for await (const chunk of answer) seen.push(chunk);
    return [...seen, "ended"];
  } catch (error) {
    // A proxy has an answer where there was none.
    const isBalers = error.status === 502 && error.headers?.get("x-baler-error");
    if (isBalers || error instanceof OpenAI.APIConnectionError) return [...seen, "connection"];
    if (error instanceof OpenAI.APIError && error.status) return [...seen, error.constructor.name, error.status, error.code ?? null];
    const broke = error.name === "TypeError" && /terminated|fetch|abort/.test(String(error));
    return [...seen, broke ? "connection" : error.constructor.name];
  }
};

check("whatever an upstream breaks ends as it does without Baler", async () => {
  const { faults } = await getJson("/control/faults");
  const off = [];
  for (const fault of faults)
    for (const stream of [false, true]) {
      const [direct, through] = [await outcome(UPSTREAM, fault, stream), await outcome(BALER, fault, stream)].map((one) => JSON.stringify(one));
      if (direct !== through) off.push(`${fault}, ${stream ? "streamed" : "plain"}: ${direct} without Baler, ${through} with it`);
    }
  assert.equal(off.join("\n"), "");
  console.log(`     node: ${faults.length} faults, plain and streamed: the same outcome`);
});

check("the SDK's own retry works", async () => {
  const answer = await create([user(`do: flaky ${RUN}`)], { via: client(BALER, "common", { maxRetries: 1 }) });
  assert.equal(answer.choices[0].message.content, `Done: flaky ${RUN}`);
});

check("unreachable upstream", async () => {
  for (const stream of [false, true]) {
    const error = await failure(OpenAI.InternalServerError, create([user(MARK)], { via: client(BALER_TO_NOBODY), stream }));
    assert.ok(error instanceof OpenAI.APIError);
    assert.deepEqual([error.status, error.code, error.headers.get("x-baler-error")], [502, "upstream_unreachable_connect", "upstream_unreachable_connect"]);
    assert.ok(!error.message.includes(MARK));
  }
});

check("twenty at once", async () => {
  // The upstream answers none of them before all have arrived.
  const via = client(BALER, "parallel");
  const ask = async (n) => {
    const messages = [user(`do: together ${RUN} 20 ${n}`)];
    if (n % 2) return textOf(await collect(await create(messages, { via, stream: true })));
    return (await create(messages, { via })).choices[0].message.content;
  };
  const numbers = Array.from({ length: 20 }, (_, n) => n);
  assert.deepEqual(await Promise.all(numbers.map(ask)), numbers.map((n) => `Done: together ${RUN} 20 ${n}`));
});

// A long conversation with tools: by itself it ends in an error, through Baler it does not.
const converse = async (via, turns, seen) => {
  const messages = [{ role: "system", content: "You answer customers of a garden shop." }, user(`TASK: find out what became of order ${MARK}-1.`)];
  const ask = async (stream) => {
    if (stream) {
      const asked = create(messages, { via, model: "small-1", tools: TOOLS, stream: true, stream_options: { include_usage: true } });
      const { data, response } = await asked.withResponse();
      const chunks = await collect(data);
      seen.push({ response, usage: chunks.at(-1).usage });
      return { role: "assistant", content: textOf(chunks) };
    }
    const { data, response } = await create(messages, { via, model: "small-1", tools: TOOLS }).withResponse();
    seen.push({ response, usage: data.usage });
    return data.choices[0].message;
  };
  for (let turn = 0; turn < turns; turn++) {
    messages.push(user(`Turn ${turn}: customer ${(7919 * turn) % 1000} asks about the ${MARK} seeds, lot ${turn}.`));
    const called = await ask(false);
    messages.push(called);
    for (const call of called.tool_calls) {
      const rows = Array.from({ length: 3 }, (_, n) => ({ order: 1000 * turn + n, state: "shipped", city: "Aarhus" }));
      messages.push({ role: "tool", tool_call_id: call.id, content: JSON.stringify({ part: JSON.parse(call.function.arguments).part, rows }) });
    }
    messages.push(await ask(true));
  }
  return messages;
};

check("long conversation fails without Baler", async () => {
  const error = await failure(OpenAI.BadRequestError, converse(client(UPSTREAM, "direct"), 30, []));
  assert.equal(error.code, "context_length_exceeded");
});

check("long conversation lives with Baler", async () => {
  const [via, seen] = [client(BALER, "long"), []];
  const messages = await converse(via, 30, seen);
  const actions = seen.map(({ response }) => response.headers.get("x-baler-action").split(";")[0]);
  const letters = actions.map((action) => ({ none: "n", compacted: "c", replayed: "r" })[action] ?? "?").join("");
  console.log(`     node: long conversation, by request: ${letters}`);
  assert.equal(seen.length, 60);
  assert.match(`${letters}r`, /^n+(cr+){3,}$/);
  seen.forEach(({ usage }, at) => {
    // What was sent before is sent again, byte for byte: the upstream has all of it in its prompt cache.
    if (at > 0 && actions[at] !== "compacted") {
      assert.ok(usage.prompt_tokens_details.cached_tokens >= seen[at - 1].usage.prompt_tokens - 1, `request ${at}: ${JSON.stringify(usage)}`);
    }
  });
  const recalled = await create([...messages, user("do: recall")], { via, model: "small-1", tools: TOOLS });
  assert.equal(recalled.choices[0].message.content, messages[1].content);
});

let failed = 0;
for (const [name, body] of checks) {
  try {
    await body();
    console.log(`ok   node: ${name}`);
  } catch (error) {
    failed++;
    console.error(error);
    console.log(`FAIL node: ${name}`);
  }
}
process.exit(failed ? 1 : 0);
