"""A scripted LLM API in OpenAI's shape. Prints its base URL and one where nobody listens, then serves until killed.

What it answers depends on the request alone. A last user message `do: WORD ARGUMENT` asks for something special (see
`Exchange.special`); other text is answered with `You said: ...`, or with two parallel calls when there are tools.
Models named `small-*` have a context of 4096 tokens, four bytes each; longer prompts are refused as OpenAI does. It
also refuses lists in which calls and results do not pair up, and reports a prompt cache: what a prompt shares with the
one before it, of the same key and model. Nothing of any request is written anywhere.
"""

import gzip
import hashlib
import itertools
import json
import os
import re
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SMALL_WINDOW = 4096
LARGE_WINDOW = 1_000_000
BYTES_PER_TOKEN = 4
# How long anything here waits for a client before it gives up.
PATIENCE_SECONDS = 20

HEADERS = [
    ("openai-organization", "org-e2e"),
    ("openai-processing-ms", "7"),
    ("openai-version", "2020-10-01"),
    ("server-timing", "upstream;dur=1.5"),
    ("set-cookie", "__cf_bm=one; path=/; HttpOnly"),
    ("set-cookie", "_cfuvid=two; path=/; HttpOnly"),
    ("x-ratelimit-limit-requests", "10000"),
    ("x-ratelimit-remaining-tokens", "149984"),
    ("x-ratelimit-reset-tokens", "6ms"),
]

# Status, body and extra headers of the errors that `do: error NAME` asks for.
ERRORS = {
    "401": (401, {"message": "Incorrect API key provided.", "type": "invalid_request_error", "param": None, "code": "invalid_api_key"}, []),
    "429": (
        429,
        {"message": "Rate limit reached for requests.", "type": "requests", "param": None, "code": "rate_limit_exceeded"},
        [("retry-after", "7"), ("x-ratelimit-remaining-requests", "0")],
    ),
    "400": (
        400,
        {
            "message": "This model's maximum context length is 128000 tokens. Please reduce the length of the messages.",
            "type": "invalid_request_error",
            "param": "messages",
            "code": "context_length_exceeded",
        },
        [],
    ),
    "500": (500, {"message": "The server had an error.", "type": "server_error", "param": None, "code": "internal_error"}, []),
}


ANSWER = b'{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"large-1","choices":[{"index":0,"message":{"role":"assistant","content":"whole"},"finish_reason":"stop"}]}'
EVENT = b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"large-1","choices":[{"index":0,"delta":{"content":"part"},"finish_reason":null}]}\n\n'
JSON_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n"


def chunked(*pieces):
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)


def sized(body, head=JSON_HEAD, more=0):
    close = b"" if more else b"connection: close\r\n"
    return head + b"%bcontent-length: %d\r\n\r\n%b" % (close, len(body) + more, body)


def stream(*pieces):
    """An event stream, which ends if its last piece is empty."""
    close = b"" if pieces[-1] else b"connection: close\r\n"
    return STREAM_HEAD + close + b"\r\n" + chunked(*pieces)


# What broken upstreams send, by the name that `do: fault NAME` asks for; the connection is closed after it. What ends by itself says so
# before: a client that kept the connection could have sent the next request on it already, and this race is not the question here.
FAULTS = {
    "nothing": b"",
    "part-of-a-head": b"HTTP/1.1 200 OK\r\ncontent-ty",
    "no-http": b"SSH-2.0-OpenSSH_9.9\r\n",
    "no-body": JSON_HEAD + b"content-length: 200\r\n\r\n",
    "part-of-a-body": sized(ANSWER[:60], more=100),
    "part-of-the-json": sized(ANSWER[:60]),
    "empty": sized(b""),
    "no-json": sized(b"it works"),
    "html": sized(b"<html>bad gateway</html>", b"HTTP/1.1 502 Bad Gateway\r\ncontent-type: text/html\r\n"),
    "503-without-a-body": sized(b"", b"HTTP/1.1 503 Service Unavailable\r\n"),
    "418": sized(b'{"error":{"message":"teapot","code":"teapot"}}', b"HTTP/1.1 418 Teapot\r\ncontent-type: application/json\r\n"),
    "redirect-to-nowhere": sized(b"", b"HTTP/1.1 302 Found\r\n"),
    "until-it-closes": JSON_HEAD + b"connection: close\r\n\r\n" + ANSWER,
    "no-gzip": sized(b"it is not", JSON_HEAD + b"content-encoding: gzip\r\n"),
    "length-too-small": sized(ANSWER, more=-20),
    "bad-chunk": JSON_HEAD + b"transfer-encoding: chunked\r\n\r\nzz\r\n" + ANSWER,
    "chunks-without-end": JSON_HEAD + b"transfer-encoding: chunked\r\n\r\n" + chunked(ANSWER),
    "events-without-end": stream(EVENT, EVENT),
    "part-of-an-event": stream(EVENT, EVENT[:50]),
    "part-of-an-event-ended": stream(EVENT, EVENT[:50], b""),
    "no-done": stream(EVENT, EVENT, b""),
    "error-event": stream(EVENT, b'data: {"error":{"message":"The server had an error","type":"server_error"}}\n\n', b""),
    "bad-event": stream(EVENT, b"data: {it is not\n\n", b""),
    "no-events": stream(b""),
    "comments-and-unknown-fields": stream(b": hello\n\nretry: 9\nid: 4\n", EVENT, b"data: [DONE]\n\n", b""),
    "crlf-events": stream(EVENT.replace(b"\n", b"\r\n"), b"data: [DONE]\r\n\r\n", b""),
}


class Refused(Exception):
    """An error answer: status, the `error` object, extra headers."""


class Broken(Exception):
    """What is sent as it is; the connection is closed then."""


class Memory:
    """What several requests share, each name used by one test only."""

    def __init__(self):
        self.lock = threading.Lock()
        self.numbers = itertools.count(1)
        self.events = {}
        self.barriers = {}
        self.seen = set()
        self.prompts = {}

    def event(self, name):
        with self.lock:
            return self.events.setdefault(name, threading.Event())

    def barrier(self, name, parties):
        with self.lock:
            return self.barriers.setdefault(name, threading.Barrier(parties))

    def first_time(self, name):
        with self.lock:
            new = name not in self.seen
            self.seen.add(name)
            return new

    def cached_bytes(self, key, prompt):
        """How many bytes the prompt shares with the last one under this key, which it then replaces."""
        with self.lock:
            before = self.prompts.get(key, "")
            self.prompts[key] = prompt
        return len(os.path.commonprefix([before, prompt]))


MEMORY = Memory()


def text_of(message):
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def check_pairing(messages):
    """Refuses what OpenAI refuses: calls without results, results without calls."""
    open_calls = []
    for at, message in enumerate(messages):
        if message["role"] == "tool":
            if message.get("tool_call_id") not in open_calls:
                raise Refused(400, invalid(f"messages.[{at}].role: a tool message must follow the tool_calls that it answers"), [])
            open_calls.remove(message["tool_call_id"])
            continue
        if open_calls:
            raise Refused(400, invalid(f"messages.[{at}]: tool_calls without answers before it"), [])
        open_calls = [call["id"] for call in message.get("tool_calls") or []]
    if open_calls:
        raise Refused(400, invalid("the last tool_calls have no answers"), [])


def invalid(message):
    return {"message": message, "type": "invalid_request_error", "param": "messages", "code": None}


class Exchange(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 120

    def log_message(self, *_):
        pass

    # Answers

    def head(self, status, kind, extra):
        self.send_response(status)
        number = self.headers.get("x-test-id") or next(MEMORY.numbers)
        for name, value in [("content-type", kind), ("x-request-id", f"req_{number}"), *HEADERS, *self.seen_headers, *extra]:
            self.send_header(name, value)

    def answer(self, status, value, extra=(), compress=False):
        body = json.dumps(value).encode()
        extra = list(extra)
        if compress:
            body = gzip.compress(body)
            extra.append(("content-encoding", "gzip"))
        self.head(status, "application/json", [("content-length", str(len(body))), *extra])
        self.end_headers()
        self.wfile.write(body)

    def chunk(self, data):
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    # Requests

    def do_GET(self):
        self.seen_headers = []
        if self.path == "/v1/models":
            models = [{"id": name, "object": "model", "created": 1, "owned_by": "e2e"} for name in ("large-1", "small-1")]
            self.answer(200, {"object": "list", "data": models})
        elif self.path == "/control/faults":
            self.answer(200, {"faults": list(FAULTS)})
        elif self.path.startswith("/control/await/"):
            # Whether what this name stands for has happened, as soon as it has.
            self.answer(200, {"happened": MEMORY.event(self.path).wait(PATIENCE_SECONDS)})
        elif self.path.startswith("/control/release/"):
            MEMORY.event(self.path).set()
            self.answer(200, {})
        else:
            self.answer(404, {"error": invalid("no such path")})

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        # So that a client can tell what reached the upstream.
        self.seen_headers = [
            ("x-seen-body", hashlib.sha256(body).hexdigest()),
            ("x-seen-target", self.path),
            ("x-seen-headers", ",".join(sorted(name.lower() for name in self.headers if name.lower().startswith(("x-", "auth"))))),
        ]
        if self.path.partition("?")[0] != "/v1/chat/completions":
            return self.answer(404, {"error": invalid("no such path")})
        try:
            self.complete(json.loads(body))
        except Refused as refused:
            status, error, extra = refused.args
            self.answer(status, {"error": error}, extra)
        except Broken as broken:
            self.wfile.write(broken.args[0])
            self.close_connection = True

    def complete(self, request):
        messages = request["messages"]
        check_pairing(messages)
        prompt = json.dumps([request.get("tools"), messages])
        tokens = len(prompt) // BYTES_PER_TOKEN
        window = SMALL_WINDOW if request["model"].startswith("small-") else LARGE_WINDOW
        if tokens > window:
            error = {
                "message": f"This model's maximum context length is {window} tokens. However, your messages resulted in {tokens} tokens.",
                "type": "invalid_request_error",
                "param": "messages",
                "code": "context_length_exceeded",
            }
            raise Refused(400, error, [])

        last = messages[-1]
        special, calls = {}, []
        if last["role"] == "user" and text_of(last).startswith("do: "):
            text, special = self.special(messages, *text_of(last).split()[1:])
        elif last["role"] == "user" and request.get("tools"):
            text, calls = None, self.calls(request["tools"], messages)
        elif last["role"] == "tool":
            text = f"The tools said {len(text_of(last))} bytes at last."
        else:
            text = f"You said: {text_of(last)}"

        cached = MEMORY.cached_bytes((self.headers.get("authorization"), request["model"]), prompt) // BYTES_PER_TOKEN
        replied = max(1, len(text or json.dumps(calls)) // BYTES_PER_TOKEN)
        usage = {
            "prompt_tokens": tokens,
            "completion_tokens": replied,
            "total_tokens": tokens + replied,
            "prompt_tokens_details": {"cached_tokens": min(cached, tokens)},
        }
        envelope = {"id": f"chatcmpl-{len(prompt)}", "created": 1_700_000_000, "model": request["model"]}
        finish = "tool_calls" if calls else "stop"
        if request.get("stream"):
            include_usage = (request.get("stream_options") or {}).get("include_usage")
            return self.stream(envelope, text, calls, finish, usage if include_usage else None, special)
        message = {"role": "assistant", "content": text, "refusal": None}
        if calls:
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
        self.answer(200, {**envelope, "object": "chat.completion", "choices": [choice], "usage": usage}, compress="gzip" in special)

    def special(self, messages, word, *arguments):
        """The text to answer with, and how to send it."""
        if word == "error":
            raise Refused(*ERRORS[arguments[0]])
        if word == "fault":
            raise Broken(FAULTS[arguments[0]])
        if word == "flaky" and MEMORY.first_time(arguments[0]):
            status, error, _ = ERRORS["429"]
            raise Refused(status, error, [("retry-after-ms", "10")])
        if word == "together":
            # Answered only once so many of them are here at a time.
            name, parties = arguments[:2]
            try:
                MEMORY.barrier(name, int(parties)).wait(PATIENCE_SECONDS)
            except threading.BrokenBarrierError:
                raise Refused(500, {**ERRORS["500"][1], "message": "the others never came"}, []) from None
        if word == "recall":
            return next(text_of(message) for message in messages if message["role"] == "user"), {}
        if word == "gzip" and "gzip" not in self.headers.get("accept-encoding", ""):
            raise Refused(400, invalid("the client accepts no gzip"), [])
        return f"Done: {word} {' '.join(arguments)}", {word: arguments}

    @staticmethod
    def calls(tools, messages):
        """Two calls at once, of the tools there are in turn."""
        names = itertools.cycle(tool["function"]["name"] for tool in tools)
        return [
            {
                "id": f"call_{len(messages)}_{at}",
                "type": "function",
                "function": {"name": next(names), "arguments": json.dumps({"part": at, "query": text_of(messages[-1])[:40]})},
            }
            for at in range(2)
        ]

    # Streams

    def stream(self, envelope, text, calls, finish, usage, special):
        self.head(200, "text/event-stream; charset=utf-8", [("transfer-encoding", "chunked"), ("cache-control", "no-cache")])
        self.end_headers()
        deltas = [{"role": "assistant", "content": None if calls else ""}, *self.deltas(text, calls)]
        if "torn" in special:
            deltas += [{"content": piece} for piece in ("Zwölf", " Boxkämpfer ", "🥊", "\u2028", "日本語")]
        if "endless" in special:
            return self.endless(envelope, *special["endless"])

        events = [self.event(envelope, {"index": 0, "delta": delta, "finish_reason": None}, usage) for delta in deltas]
        events.append(self.event(envelope, {"index": 0, "delta": {}, "finish_reason": finish}, usage))
        if usage:
            events.append(self.data({**envelope, "object": "chat.completion.chunk", "choices": [], "usage": usage}))
        events.append(b"data: [DONE]\n\n")
        if "hold" in special:
            for event in events[:2]:
                self.chunk(event)
            del events[:2]
            if not MEMORY.event(f"/control/release/{special['hold'][0]}").wait(PATIENCE_SECONDS):
                # Nobody released it: broken off without its end, which no client takes for an answer.
                self.close_connection = True
                return
        if "torn" in special:
            # In pieces that respect neither events nor characters.
            whole = b"".join(events)
            events = [whole[at : at + 5] for at in range(0, len(whole), 5)]
        for event in events:
            self.chunk(event)
        self.chunk(b"")

    @staticmethod
    def deltas(text, calls):
        for piece in re.findall(r"\S+\s*|^\s+", text or ""):
            yield {"content": piece}
        for at, call in enumerate(calls):
            function = call["function"]
            yield {"tool_calls": [{"index": at, **call, "function": {"name": function["name"], "arguments": ""}}]}
            for start in range(0, len(function["arguments"]), 8):
                yield {"tool_calls": [{"index": at, "function": {"arguments": function["arguments"][start : start + 8]}}]}

    def endless(self, envelope, name):
        """Words until the client has gone, which is then told to whoever waits for it."""
        self.close_connection = True
        pace = threading.Event()
        event = self.event(envelope, {"index": 0, "delta": {"content": " more"}, "finish_reason": None}, None)
        try:
            for _ in range(PATIENCE_SECONDS * 50):
                self.chunk(event)
                pace.wait(0.02)
        except OSError:
            MEMORY.event(f"/control/await/{name}").set()

    def event(self, envelope, choice, usage):
        extra = {"usage": None} if usage else {}
        return self.data({**envelope, "object": "chat.completion.chunk", "choices": [choice], **extra})

    @staticmethod
    def data(value):
        return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


class Upstream(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request, client_address):
        # A client that left is no news here; tests that care wait for it by name.
        pass


if __name__ == "__main__":
    # Bound but not listening: connections are refused, and nobody else can take the port.
    closed = socket.socket()
    closed.bind(("127.0.0.1", 0))
    server = Upstream(("127.0.0.1", 0), Exchange)
    print(f"http://127.0.0.1:{server.server_port}/v1 http://127.0.0.1:{closed.getsockname()[1]}/v1", flush=True)
    server.serve_forever()
