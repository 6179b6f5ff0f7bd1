"""A conversation with a real model under a policy that claims far too large a window: the first overflow must be rescued
within the same request, and none may follow.

usage: rescue.py BALER ADMIN CONTEXT [TURNS]    (base URL of Baler, its probes and metrics, the server's real context length)
"""

import re
import statistics
import sys
import urllib.request

import conversation
from checks import Checks

BALER, ADMIN, CONTEXT = sys.argv[1], sys.argv[2], int(sys.argv[3])
# The policy of this name says 131,072 tokens; no table knows the model.
MODEL = "overclaimed"
TURNS = int(sys.argv[4]) if len(sys.argv) > 4 else 60

check = Checks("rescue")
# (action, prompt tokens as the server reported them, Baler's estimate, Baler's window) of every turn.
turns = []


@check
def every_turn_without_an_error():
    print(f"     {'turn':4} {'action':9} {'prompt':>6} {'estimate':>8} {'window':>7}")
    for turn in conversation.turns(BALER, "sk-marigold-rescue", MODEL, TURNS):
        estimate, window = (int(re.search(rf"{name}=(\d+)", turn.headers["x-baler-tokens"])[1]) for name in ("after", "window"))
        row = (turn.action, turn.usage.prompt_tokens, estimate, window)
        turns.append(row)
        print(f"     {turn.number:4} {row[0]:9} {row[1]:6} {row[2]:8} {row[3]:7}", flush=True)
    assert len(turns) == TURNS


@check
def one_rescue_and_no_overflow_after_it():
    letters = "".join({"none": "n", "rescued": "R", "compacted": "c", "replayed": "r"}.get(action, "?") for action, *_ in turns)
    assert re.fullmatch(r"n+R[rc]+", letters) and letters.count("c") >= TURNS // 30, letters
    metrics = urllib.request.urlopen(f"{ADMIN}/metrics", timeout=20).read().decode()
    overflows = sum(float(count) for count in re.findall(r"^baler_overflows_total\{.*\} (\S+)$", metrics, re.M))
    assert overflows == 1, overflows


@check
def the_learned_window_is_the_servers():
    assert turns and turns[-1][3] == CONTEXT, turns[-1]


@check
def the_estimate_is_within_two_percent_as_a_rule():
    # Nobody told Baler anything about this model: what it knows of it is what the server reported.
    errors = [abs(estimate - prompt) / prompt for _, prompt, estimate, _ in turns[1:]]
    median = statistics.median(errors)
    print(f"     estimates from the second turn on: median error {median:.2%}, worst {max(errors):.2%}")
    assert median <= 0.02, median


sys.exit(check.run())
