"""OpenAI's Python SDK through Baler, against the scripted upstream (`upstream.py`).

usage: python_sdk.py BALER UPSTREAM BALER_TO_NOBODY ADMIN    (base URLs; ADMIN is Baler's admin origin)
"""

import asyncio
import hashlib
import json
import re
import secrets
import sys
import time
import urllib.request

import openai
from checks import Checks
from openai import AsyncOpenAI, OpenAI

BALER, UPSTREAM, BALER_TO_NOBODY, ADMIN = sys.argv[1:5]
ORIGIN = UPSTREAM.removesuffix("/v1")
# In every text and key, so that `run` can look for them where no content may be.
MARK = "marigold"
TIMEOUT_SECONDS = 30
# The upstream remembers names and keys: no other run may have used these.
RUN = secrets.token_hex(4)

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"Looks up {what}.",
            "parameters": {"type": "object", "properties": {"part": {"type": "integer"}, "query": {"type": "string"}}},
        },
    }
    for name, what in (("find_orders", "orders of a customer"), ("find_stock", "what is in stock"))
]

check = Checks("python")


def client(base_url=BALER, key="common", **options):
    options = {"max_retries": 0, "timeout": TIMEOUT_SECONDS, **options}
    return OpenAI(base_url=base_url, api_key=f"sk-{MARK}-{RUN}-{key}", **options)


def user(text):
    return {"role": "user", "content": text}


def get(url):
    with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as answer:
        return answer.read().decode()


def metric(name, **labels):
    """The sum of a metric over all its series that have these labels."""
    total = 0.0
    for line in get(f"{ADMIN}/metrics").splitlines():
        if re.match(rf"{name}[ {{]", line) and all(f'{label}="{value}"' in line for label, value in labels.items()):
            total += float(line.rsplit(" ", 1)[1])
    return total


def raw(messages, via=None, **options):
    return (via or client()).chat.completions.with_raw_response.create(**{"model": "large-1", "messages": messages, **options})


def stream_of(messages, **options):
    return client().chat.completions.create(model="large-1", messages=messages, stream=True, **options)


def text_of(chunks):
    return "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)


def headers_of(response):
    """All headers of an answer except the date and what Baler adds."""
    own = ("date", "server-timing", "x-baler-")
    return sorted((name.lower(), value) for name, value in response.headers.multi_items() if not name.lower().startswith(own))


def tokens_of(response):
    """`x-baler-tokens` as numbers: before, after, window."""
    return tuple(int(n) for n in re.fullmatch(r"before=(\d+); after=(\d+); window=(\d+)", response.headers["x-baler-tokens"]).groups())


@check
def models_pass_through_unread():
    response = client().models.with_raw_response.list()
    assert [model.id for model in response.parse().data] == ["large-1", "small-1"]
    assert not [name for name in response.headers if name.startswith("x-baler")], "only chat completions are inspected"


@check
def plain_answer():
    answer = client().chat.completions.create(model="large-1", messages=[user(f"hello {MARK}")])
    assert answer.choices[0].message.content == f"You said: hello {MARK}"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.prompt_tokens > 0


@check
def the_upstream_gets_what_was_sent():
    messages = [{"role": "system", "content": "Zwölf Boxkämpfer \u2028 \U0001f94a"}, user(f"a {MARK}\n\ttab")]
    options = {"temperature": 0.30, "seed": 2**53 - 1, "extra_body": {"unknown": [1e2, None, {"b": 1, "a": 2}]}, "extra_query": {"api-version": MARK}}
    response = raw(messages, **options)
    direct = raw(messages, client(UPSTREAM), **options)
    assert response.headers["x-seen-body"] == hashlib.sha256(response.http_request.content).hexdigest()
    for name in ("x-seen-body", "x-seen-target", "x-seen-headers"):
        assert response.headers[name] == direct.headers[name], name


@check
def the_upstreams_headers_are_unchanged():
    options = {"extra_headers": {"x-test-id": "py-headers"}}
    # Two keys that were never used: the length of the answer depends on the prompt cache's figures.
    both = client(key="headers"), client(UPSTREAM, "headers-direct")
    for stream in (False, True):
        through, direct = (raw([user(MARK)], via, stream=stream, **options) for via in both)
        assert headers_of(through) == headers_of(direct)
        assert through.headers["x-request-id"] == "req_py-headers" == through.request_id
        assert through.headers["x-ratelimit-remaining-tokens"] == "149984"


@check
def balers_own_headers():
    response = raw([user(f"how long is this, {MARK}?")], extra_headers={"x-baler-request-id": "mine-1"})
    assert response.headers["x-baler-action"].startswith("none; reason=")
    assert response.headers["x-baler-policy"] == "default"
    assert response.headers["x-baler-request-id"] == "mine-1"
    before, after, window = tokens_of(response)
    assert 5 < before == after < 30 and window == 128_000, response.headers["x-baler-tokens"]
    timings = response.headers.get_list("server-timing")
    assert timings[0] == "upstream;dur=1.5", timings
    assert re.fullmatch(r"baler;dur=\d+\.\d{3}", timings[1]) and float(timings[1].partition("=")[2]) < 1000, timings
    ids = {raw([user(MARK)]).headers["x-baler-request-id"] for _ in range(3)}
    assert len(ids) == 3 and all(re.fullmatch(r"[0-9a-f]{32}", id) for id in ids), ids


@check
def gzip_answer():
    response = raw([user("do: gzip")])
    assert response.headers["content-encoding"] == "gzip"
    assert response.parse().choices[0].message.content == "Done: gzip "


@check
def stream_in_order():
    words = " ".join(f"{n}." for n in range(300))
    chunks = list(stream_of([user(words)]))
    assert len(chunks) > 300, "as many chunks as the upstream sent"
    assert text_of(chunks) == f"You said: {words}"
    assert chunks[-1].choices[0].finish_reason == "stop"


@check
def usage_chunk_only_when_asked_for():
    without = list(stream_of([user(MARK)]))
    assert all(chunk.usage is None and chunk.choices for chunk in without)
    asked = list(stream_of([user(MARK)], stream_options={"include_usage": True}))
    assert [bool(chunk.usage) for chunk in asked] == [False] * (len(asked) - 1) + [True]
    assert asked[-1].choices == [] and asked[-1].usage.prompt_tokens > 0
    assert text_of(asked) == text_of(without) == f"You said: {MARK}"


@check
def stream_cut_anywhere():
    assert text_of(stream_of([user("do: torn")])) == "Done: torn Zwölf Boxkämpfer 🥊\u2028日本語"


@check
def stream_is_not_held_back():
    # The upstream goes on only once the client has had the first word.
    chunks = iter(stream_of([user(f"do: hold {RUN}")]))
    first = text_of([next(chunks), next(chunks)])
    assert first == "Done: ", first
    get(f"{ORIGIN}/control/release/{RUN}")
    assert text_of(chunks) == f"hold {RUN}"


@check
def aborted_stream():
    left = metric("baler_answers_broken_total", side="client")
    chunks = stream_of([user(f"do: endless {RUN}")])
    for _ in range(3):
        next(chunks)
    chunks.close()
    assert json.loads(get(f"{ORIGIN}/control/await/{RUN}")) == {"happened": True}, "the upstream is told"
    eventually(lambda: metric("baler_requests_in_flight") == 0)
    assert metric("baler_answers_broken_total", side="client") == left + 1


def eventually(true):
    """For what Baler counts just after the last byte of an answer."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not true():
        assert time.monotonic() < deadline, "never became true"
        time.sleep(0.02)


def use_tools(messages, message):
    """Appends the assistant's message and a result for each of its calls, in the reverse order."""
    messages.append(message.model_dump(exclude_none=True))
    for call in reversed(message.tool_calls):
        part = json.loads(call.function.arguments)["part"]
        rows = [{"order": 1000 * len(messages) + n, "state": "shipped", "city": "Aarhus"} for n in range(3)]
        messages.append({"role": "tool", "tool_call_id": call.id, "content": json.dumps({"part": part, "tool": call.function.name, "rows": rows})})


@check
def parallel_tool_calls():
    messages = [user(f"Where are my orders, {MARK}?")]
    message = client().chat.completions.create(model="large-1", messages=messages, tools=TOOLS).choices[0].message
    assert [call.function.name for call in message.tool_calls] == ["find_orders", "find_stock"]
    assert [json.loads(call.function.arguments)["part"] for call in message.tool_calls] == [0, 1]
    use_tools(messages, message)
    answer = client().chat.completions.create(model="large-1", messages=messages, tools=TOOLS)
    assert answer.choices[0].message.content == f"The tools said {len(messages[-1]['content'])} bytes at last."
    # The upstream checks pairing: without this, the check above proves nothing.
    refused = failure(openai.BadRequestError, lambda: raw(messages[:-1], tools=TOOLS))
    assert "tool_calls" in refused.message


@check
def parallel_tool_calls_streamed():
    with client().chat.completions.stream(model="large-1", messages=[user(f"And now, {MARK}?")], tools=TOOLS) as stream:
        done = [event.arguments for event in stream if event.type == "tool_calls.function.arguments.done"]
        message = stream.get_final_completion().choices[0].message
    assert [json.loads(arguments)["part"] for arguments in done] == [0, 1]
    assert [call.id for call in message.tool_calls] == ["call_1_0", "call_1_1"]


def failure(kind, act):
    """The error of exactly this kind that `act` raises."""
    try:
        act()
    except openai.APIError as error:
        assert type(error) is kind, f"{type(error).__name__}: {error}"
        return error
    raise AssertionError(f"no {kind.__name__}")


@check
def the_upstreams_errors_pass_through():
    for name, kind, code in (
        ("401", openai.AuthenticationError, "invalid_api_key"),
        ("429", openai.RateLimitError, "rate_limit_exceeded"),
        ("400", openai.BadRequestError, "context_length_exceeded"),
        ("500", openai.InternalServerError, "internal_error"),
    ):
        for stream in (False, True):
            ask = {"messages": [user(f"do: error {name}")], "stream": stream, "extra_headers": {"x-test-id": f"py-{name}"}}
            through, direct = (failure(kind, lambda via=via: raw(via=via, **ask)) for via in (client(), client(UPSTREAM)))
            assert (through.status_code, through.code, through.body) == (int(name), code, direct.body), name
            assert through.request_id == f"req_py-{name}"
            assert headers_of(through.response) == headers_of(direct.response)
            assert "x-baler-error" not in through.response.headers, "it is not Baler's error"
            assert "x-baler-request-id" in through.response.headers
    assert failure(openai.RateLimitError, lambda: raw([user("do: error 429")])).response.headers["retry-after"] == "7"


def outcome(base_url, fault, stream):
    """How the SDK ends: what it made of the answer, or which error it raised."""
    seen = []
    try:
        answer = client(base_url).chat.completions.create(model="large-1", messages=[user(f"do: fault {fault}")], stream=stream)
        if not stream:
            return [answer if isinstance(answer, str) else answer.to_dict() if answer is not None else None]
        seen.extend(chunk.to_dict() for chunk in answer)
        return [*seen, "ended"]
    except openai.APIConnectionError:
        return [*seen, "connection"]
    except openai.APIStatusError as error:
        # A proxy has an answer where there was none.
        is_balers = error.response.headers.get("x-baler-error") and error.status_code == 502
        return [*seen, "connection" if is_balers else (type(error).__name__, error.status_code, error.code, str(error.body))]
    except Exception as error:
        broke = "httpx" in type(error).__module__ or "httpcore" in type(error).__module__
        return [*seen, "connection" if broke else type(error).__name__]


@check
def whatever_an_upstream_breaks_ends_as_it_does_without_baler():
    faults = json.loads(get(f"{ORIGIN}/control/faults"))["faults"]
    off, outcomes = [], set()
    for fault in faults:
        for stream in (False, True):
            direct, through = outcome(UPSTREAM, fault, stream), outcome(BALER, fault, stream)
            outcomes.add(str(direct))
            if direct != through:
                off.append(f"{fault}, {'streamed' if stream else 'plain'}: {direct} without Baler, {through} with it")
    assert not off, "\n" + "\n".join(off)
    assert len(outcomes) >= 10, outcomes
    print(f"     python: {len(faults)} faults, plain and streamed, {len(outcomes)} outcomes: each the same as without Baler")


@check
def the_sdks_own_retry_works():
    response = raw([user(f"do: flaky {RUN}")], client(max_retries=1))
    assert response.retries_taken == 1
    assert response.parse().choices[0].message.content == f"Done: flaky {RUN}"


@check
def unreachable_upstream():
    for stream in (False, True):
        error = failure(openai.InternalServerError, lambda stream=stream: raw([user(MARK)], client(BALER_TO_NOBODY), stream=stream))
        assert isinstance(error, openai.APIStatusError) and error.status_code == 502
        assert error.code == error.response.headers["x-baler-error"] == "upstream_unreachable_connect"
        assert set(error.body) == {"message", "type", "param", "code"} and MARK not in error.message
    # What is not inspected fails the same way.
    error = failure(openai.InternalServerError, lambda: client(BALER_TO_NOBODY).models.list())
    assert (error.status_code, error.code) == (502, "upstream_unreachable_connect")


COUNT = 20


@check
def twenty_at_once():
    async def ask(via, n):
        messages = [user(f"do: together {RUN} {COUNT} {n}")]
        if n % 2:
            return text_of([chunk async for chunk in await via.chat.completions.create(model="large-1", messages=messages, stream=True)])
        return (await via.chat.completions.create(model="large-1", messages=messages)).choices[0].message.content

    async def all_of_them():
        # The upstream answers none of them before all have arrived.
        async with AsyncOpenAI(base_url=BALER, api_key=f"sk-{MARK}-{RUN}-async", max_retries=0, timeout=TIMEOUT_SECONDS) as via:
            return await asyncio.gather(*(ask(via, n) for n in range(COUNT)))

    assert asyncio.run(all_of_them()) == [f"Done: together {RUN} {COUNT} {n}" for n in range(COUNT)]


# A long conversation with tools. Its prompt outgrows the small model's window several times over.
TURNS = 30


def converse(via, messages, seen, turns=TURNS):
    """Holds the conversation; `seen` gets every answer's raw response."""

    def ask():
        response = raw(messages, via, model="small-1", tools=TOOLS, stream=False)
        seen.append(response)
        return response.parse().choices[0].message

    for turn in range(turns):
        messages.append(user(f"Turn {turn}: customer {7919 * turn % 1000} asks about the {MARK} seeds, lot {turn}, and the spades of last week."))
        use_tools(messages, ask())
        message = ask()
        messages.append({"role": "assistant", "content": message.content})


def opening():
    return [{"role": "system", "content": "You answer customers of a garden shop."}, user(f"TASK: find out what became of order {MARK}-1.")]


@check
def long_conversation_fails_without_baler():
    error = failure(openai.BadRequestError, lambda: converse(client(UPSTREAM, "direct"), opening(), []))
    assert error.code == "context_length_exceeded"


@check
def long_conversation_lives_with_baler():
    compacted = metric("baler_requests_total", action="compacted")
    via, messages, seen = client(key="long"), opening(), []
    converse(via, messages, seen)
    actions = [response.headers["x-baler-action"].split(";")[0] for response in seen]
    letters = "".join({"none": "n", "compacted": "c", "replayed": "r"}.get(action, "?") for action in actions)
    print(f"     python: long conversation, by request: {letters}")
    assert len(seen) == 2 * TURNS
    assert re.fullmatch(r"n+(cr+){3,}", letters + "r"), letters
    assert letters.count("c") <= len(seen) / 4, "compaction is rare"
    assert metric("baler_requests_total", action="compacted") == compacted + letters.count("c")
    assert all(response.headers["x-baler-policy"] == "small" for response in seen)

    # Once, where what the upstream reports has led to another step of the learned factor, the list is the one that every
    # replica makes with that step, and that may leave less room; any other compaction leaves room for many turns.
    left = [tokens_of(response)[1] for response, action in zip(seen, actions) if action == "compacted"]
    assert sum(tokens > 0.8 * (4096 - 512) for tokens in left) <= 1, left
    assert all(tokens < 0.9 * (4096 - 512) for tokens in left), left

    for at, response in enumerate(seen):
        before, after, window = tokens_of(response)
        usage = response.parse().usage
        sent_as_it_came = response.headers["x-seen-body"] == hashlib.sha256(response.http_request.content).hexdigest()
        assert window == 4096
        if actions[at] == "none":
            assert before == after and sent_as_it_came
        else:
            assert before > after and not sent_as_it_came
        if actions[at] != "compacted" and at > 0:
            # What was sent before is sent again, byte for byte: the upstream has all of it in its prompt cache.
            last = seen[at - 1].parse().usage
            assert usage.prompt_tokens_details.cached_tokens >= last.prompt_tokens - 1, f"request {at}: {usage}"

    # The task is still there, and so it is in a list that was never compacted before.
    messages.append(user("do: recall"))
    assert raw(messages, via, model="small-1", tools=TOOLS).parse().choices[0].message.content == messages[1]["content"]
    fresh = raw(messages, client(key="fresh"), model="small-1", tools=TOOLS)
    assert fresh.parse().choices[0].message.content == messages[1]["content"]
    assert fresh.headers["x-baler-action"].split(";")[0] in ("compacted", "replayed")

    # Who opts out is on his own.
    error = failure(openai.BadRequestError, lambda: raw(messages, via, model="small-1", tools=TOOLS, extra_headers={"x-baler-mode": "off"}))
    assert error.code == "context_length_exceeded" and error.response.headers["x-baler-action"].split(";")[0] == "bypassed"


@check
def long_conversation_streamed():
    via, messages, actions = client(key="long-streamed"), opening(), []
    for turn in range(60):
        messages.append(user(f"Turn {turn}: " + f"tell me more about lot {turn}, {MARK}. " * 8))
        response = raw(messages, via, model="small-1", stream=True)
        actions.append(response.headers["x-baler-action"].split(";")[0])
        answer = text_of(response.parse())
        assert answer == f"You said: {messages[-1]['content']}"
        messages.append({"role": "assistant", "content": answer})
    assert actions[0] == "none" and actions.count("compacted") >= 3 and actions.count("replayed") > 30, actions


@check
def a_client_that_leaves_before_the_answer_is_recorded():
    left = metric("baler_answers_broken_total", side="client")
    failure(openai.APITimeoutError, lambda: raw([user(f"do: together never-{RUN} 2")], client(timeout=1)))
    eventually(lambda: metric("baler_answers_broken_total", side="client") == left + 1)


sys.exit(check.run())
