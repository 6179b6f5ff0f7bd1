"""Load for a Baler, so that every panel has something to show: growing conversations, overflows, tools, summaries, errors."""

import itertools
import json
import threading
import time
import urllib.error
import urllib.request

CONFIG = """
[log]
level = "warn"
[limits]
body_bytes = 262144
[summarizer]
breaker_failures = 1000
failure_lifetime = "1s"
[[policy]]
name = "small"
models = ["small-1"]
window = 4096
reserve = 512
keep = { tokens = 600, turns = 1 }
include_usage = true
[[policy]]
name = "overclaimed"
models = ["small-2"]
window = 16000
reserve = 512
keep = { tokens = 600, turns = 1 }
[[policy]]
name = "summaries"
models = ["small-3"]
window = 4096
reserve = 512
keep = { tokens = 400, turns = 1 }
ladder = [{ summarize = { prepare_at = 0.3, keep = { tokens = 300 } } }, { webhook = { url = "http://127.0.0.1:9/compact", timeout = "1s" } }, "dedupe", "minify", "digest", "token_budget"]
[[policy]]
name = "large"
window = 100000
"""


def ask(url, model, messages, stream):
    body = json.dumps({"model": model, "messages": messages, "stream": stream}).encode()
    request = urllib.request.Request(f"{url}/v1/chat/completions", body, {"content-type": "application/json", "authorization": f"Bearer {model}"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            answer.read()
    except urllib.error.HTTPError as error:
        error.read()
    except OSError:
        # Answered before all of the body was sent.
        pass


def converse(url, model, stop, wait):
    """Conversations of forty turns, one after the other, until `stop`."""
    for number in itertools.count():
        messages = [{"role": "system", "content": f"Conversation {number} of {model}. Be brief."}]
        for turn in range(40):
            if stop.is_set():
                return
            facts = ", ".join(f"order {number}-{turn}-{i} costs {i * 17 + turn} EUR" for i in range(12))
            messages.append({"role": "user", "content": f"Turn {turn}: {facts}."})
            call = {"id": f"c{turn}", "type": "function", "function": {"name": "look_up", "arguments": json.dumps({"turn": turn})}}
            rows = json.dumps([{"id": i, "state": "open", "turn": turn} for i in range(8)], indent=2)
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            messages.append({"role": "tool", "tool_call_id": f"c{turn}", "content": rows})
            ask(url, model, messages, stream=turn % 2 == 0)
            messages.append({"role": "assistant", "content": f"Noted {turn}."})
            if turn % 5 == 0:
                # Longer than limits.body_bytes: passes unread.
                ask(url, model, [{"role": "user", "content": "x" * 300_000}], stream=False)
                # Not HTTP: an error of Baler's own.
                ask(url, model, [{"role": "user", "content": "do: fault no-http"}], stream=False)
            stop.wait(wait)
        ask(url, model, [{"role": "user", "content": "do: error 500"}], stream=False)


def run(url, seconds, wait=0.05):
    stop = threading.Event()
    threads = [threading.Thread(target=converse, args=(url, model, stop, wait)) for model in ("small-1", "small-2", "small-3", "large-1")]
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    stop.set()
    for thread in threads:
        thread.join()
