"""A conversation with a real model that outgrows its window: straight to the server, and through Baler.

usage: real_model.py BALER SERVER [TURNS]    (base URLs; the server has a fresh prompt cache and serves `smollm2`)

Straight, it ends in an error. Through Baler it must not, and the server's own count of cached tokens must show that
Baler does not spoil the prompt cache: whatever was sent for one turn is read from the cache in the next, except in the
turns in which Baler compacts.
"""

import re
import sys

import conversation
import openai
from checks import Checks

BALER, SERVER = sys.argv[1:3]
MODEL = "smollm2"
WINDOW = 4096
RESERVE = 512
TURNS = int(sys.argv[3]) if len(sys.argv) > 3 else 40
# All of a turn's prompt is in the cache for the next one; but where a reply begins with white space, the last token of
# the prompt may merge with it once it is history.
SLACK_TOKENS = 4

check = Checks("real model")


def converse(base_url):
    return conversation.turns(base_url, "sk-marigold-real", MODEL, TURNS)


# (action, prompt tokens, cached tokens, Baler's estimate) of every turn through Baler.
turns = []


@check
def every_turn_through_baler_without_an_error():
    print(f"     {'turn':4} {'action':9} {'prompt':>6} {'cached':>6} {'estimate':>8} {'window':>6}")
    for turn in converse(BALER):
        estimate = int(re.search(r"after=(\d+)", turn.headers["x-baler-tokens"])[1])
        row = (turn.action, turn.usage.prompt_tokens, turn.usage.prompt_tokens_details.cached_tokens, estimate)
        turns.append(row)
        action, prompt, cached, estimate = row
        print(f"     {turn.number:4} {action:9} {prompt:6} {cached:6} {estimate:8} {prompt / WINDOW:6.0%}", flush=True)
    assert len(turns) == TURNS


@check
def compacted_now_and_then_and_replayed_in_between():
    letters = "".join({"none": "n", "compacted": "c", "replayed": "r"}.get(action, "?") for action, *_ in turns)
    assert re.fullmatch(r"n+(cr+){2,}", letters + "r"), letters


@check
def every_prompt_leaves_the_reserve_free():
    assert turns and max(prompt for _, prompt, *_ in turns) <= WINDOW - RESERVE


@check
def the_prompt_cache_is_hit_in_every_turn():
    # With a compaction, what comes before its first cut: the instruction and the first user message.
    assert len(turns) == TURNS and turns[0][2] == 0, "the cache was not empty"
    misses = []
    for turn, ((_, last, *_), (action, _, cached, _)) in enumerate(zip(turns, turns[1:]), start=2):
        expected = turns[0][1] if action == "compacted" else last
        if cached < expected - SLACK_TOKENS:
            misses.append(f"turn {turn}, {action}: {cached} cached tokens instead of {expected}")
    assert not misses, misses


@check
def the_estimate_is_near_what_the_server_counts():
    # Another vocabulary than the model's, corrected by what the server reported for the turn before.
    off = [(at + 1, *row) for at, row in enumerate(turns) if not 0.85 <= row[3] / row[1] <= 1.15]
    assert len(turns) == TURNS and not off, off


died_at = None


@check
def the_same_conversation_fails_without_baler():
    global died_at
    done = 0
    try:
        for turn in converse(SERVER):
            done = turn.number
    except openai.BadRequestError as error:
        died_at = done + 1
        assert error.type == "exceed_context_size_error", error
    assert died_at is not None, f"{done} turns without an error: the conversation is too short to prove anything"


code = check.run()
total, cached = sum(prompt for _, prompt, *_ in turns), sum(cached for *_, cached, _ in turns)
print(
    f"     real model: {len(turns)} turns through Baler, {TURNS - len(turns)} missing, "
    f"{sum(action == 'compacted' for action, *_ in turns)} compactions, {cached / max(total, 1):.1%} of {total} prompt tokens cached; "
    f"without Baler the conversation died at turn {died_at}"
)
sys.exit(code)
