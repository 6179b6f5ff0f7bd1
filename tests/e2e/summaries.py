"""A conversation with a real model that also writes the summaries of it: they are made beside the conversation, each from
the one before, are there when they are needed, and no turn waits for one.

usage: summaries.py BALER ADMIN [TURNS]    (base URL of Baler, its probes and metrics)
"""

import re
import statistics
import sys
import time
import urllib.request

import conversation
from checks import Checks

BALER, ADMIN = sys.argv[1:3]
MODEL = "smollm2"
TURNS = int(sys.argv[3]) if len(sys.argv) > 3 else 40
# So many summaries must have been made, and used.
SUMMARIES = 3 if TURNS >= 40 else 2
# Short, as the model is not quick and has the summaries to write as well.
REPLY_TOKENS = 12
# What a turn may be held up by Baler and the machine together; of a stream's beginning, Baler looks at a quarter of a
# second. A summary takes seconds. (The server answers one at a time: that a turn stands behind a summary there is no
# doing of Baler's, but its own summary goes behind the turn.)
HELD_SECONDS = 1.0

check = Checks("summaries")
turns = []
# For each turn: milliseconds of Baler's own, and seconds that passed while the upstream did not have the request.
own, held = [], []


def metrics():
    return urllib.request.urlopen(f"{ADMIN}/metrics", timeout=20).read().decode()


def total(text, name, **labels):
    """The sum of a metric's samples with these labels."""
    samples = re.findall(rf"^{name}(?:\{{(.*)\}})? (\S+)$", text, re.M)
    wanted = [f'{label}="{value}"' for label, value in labels.items()]
    return sum(float(value) for sample, value in samples if all(label in sample.split(",") for label in wanted))


def by(text, name, label):
    """A counter by its label."""
    found = {}
    for key, value in re.findall(rf'^{name}\{{(?:[^}}]*,)?{label}="([^"]*)"[^}}]*\}} (\d+)$', text, re.M):
        found[key] = found.get(key, 0) + int(value)
    return found


def upstream_seconds(answers):
    """What the upstream took for the first byte of so many answers, together, once Baler has counted them all."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        text = metrics()
        if total(text, "baler_upstream_first_byte_seconds_count", endpoint="chat") == answers:
            return total(text, "baler_upstream_first_byte_seconds_sum", endpoint="chat")
    raise AssertionError("Baler has not counted the answer")


@check
def every_turn_without_an_error():
    print(f"     {'turn':4} {'action':32} {'prompt':>6} {'seconds':>7} {'held':>6} {'own':>7}")
    upstream = 0.0
    for turn in conversation.turns(BALER, "sk-marigold-summaries", MODEL, TURNS, REPLY_TOKENS):
        before, upstream = upstream, upstream_seconds(turn.number)
        turns.append(turn)
        held.append(turn.seconds - (upstream - before))
        own.append(float(re.search(r"baler;dur=([\d.]+)", turn.headers["server-timing"])[1]))
        action = turn.headers["x-baler-action"].replace("strategies=", "").replace('"', "")
        print(
            f"     {turn.number:4} {action:32} {turn.usage.prompt_tokens:6} {turn.seconds:6.1f}s {held[-1]:5.2f}s {own[-1]:5.1f}ms",
            flush=True,
        )
    assert len(turns) == TURNS


@check
def several_summaries_and_all_but_the_first_are_updates():
    text = metrics()
    assert total(text, "baler_summaries_total", outcome="made") >= SUMMARIES, by(text, "baler_summaries_total", "outcome")
    updates = total(text, "baler_summaries_incremental_total")
    assert updates >= SUMMARIES - 1, updates


@check
def compactions_use_them():
    compactions = [turn.headers["x-baler-action"] for turn in turns if turn.action == "compacted"]
    with_summaries = [action for action in compactions if "summarize" in action]
    assert len(with_summaries) >= SUMMARIES and len(with_summaries) > len(compactions) / 2, compactions
    ready = total(metrics(), "baler_summaries_wanted_total", state="ready")
    assert ready == len(with_summaries), f"{ready} were ready, {len(with_summaries)} were used"


@check
def they_are_replayed_in_between():
    letters = "".join({"none": "n", "compacted": "c", "replayed": "r"}.get(turn.action, "?") for turn in turns)
    assert re.fullmatch(rf"n+(cr+){{{SUMMARIES},}}", letters + "r"), letters


@check
def no_turn_waits_for_a_summary():
    assert len(turns) == TURNS
    took = total(metrics(), "baler_summarization_seconds_sum") / max(total(metrics(), "baler_summarization_seconds_count"), 1)
    print(f"     a summary took {took:.1f} s; turns were held for {statistics.median(held):.3f} s, at most {max(held):.3f} s;", end=" ")
    print(f"Baler's own time: median {statistics.median(own):.1f} ms, at most {max(own):.1f} ms")
    assert max(held) < min(HELD_SECONDS, took / 2), held


code = check.run()
text = metrics()
spent = {kind: int(total(text, "baler_summarizer_tokens_total", kind=kind)) for kind in ("prompt", "completion")}
taken = int(total(text, "baler_strategy_tokens_removed_total", strategy="summarize"))
sent, removed = int(total(text, "baler_prompt_tokens_total", stage="after")), int(total(text, "baler_prompt_tokens_removed_total"))
print(
    f"     summariser: calls {by(text, 'baler_summarizer_calls_total', 'outcome')}, "
    f"{total(text, 'baler_summarizer_seconds_sum'):.0f} s in all; summaries {by(text, 'baler_summaries_total', 'outcome')}; "
    f"when one was wanted it was {by(text, 'baler_summaries_wanted_total', 'state')}\n"
    f"     tokens: {spent.get('prompt', 0)} prompt + {spent.get('completion', 0)} completion spent on summaries; they took off "
    f"{taken} when they were put in, and with the turns after that {removed} were not sent, {sent} were"
)
sys.exit(code)
