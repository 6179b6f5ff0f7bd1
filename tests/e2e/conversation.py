"""A conversation with a real model: always the same, until the replies differ."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from notes import SYSTEM, user_text
from openai import OpenAI
from openai.types import CompletionUsage

REPLY_TOKENS = 24
# A turn takes two seconds, on a busy machine a minute.
TIMEOUT_SECONDS = 240


@dataclass
class Turn:
    """One turn, answered."""

    number: int
    headers: Mapping[str, str]
    usage: CompletionUsage
    # From asking until the answer's headers were there.
    seconds: float

    @property
    def action(self):
        return self.headers["x-baler-action"].split(";")[0]


def turns(base_url, key, model, count, reply_tokens=REPLY_TOKENS):
    """Holds the conversation, a `Turn` at a time. Every third turn is streamed."""
    client = OpenAI(base_url=base_url, api_key=key, max_retries=0, timeout=TIMEOUT_SECONDS)
    messages = [{"role": "system", "content": SYSTEM}]
    for turn in range(count):
        messages.append({"role": "user", "content": user_text(turn)})
        ask = {"model": model, "messages": messages, "max_tokens": reply_tokens, "temperature": 0}
        stream = {"stream": True, "stream_options": {"include_usage": True}} if turn % 3 == 2 else {}
        asked = time.monotonic()
        response = client.chat.completions.with_raw_response.create(**ask, **stream)
        seconds = time.monotonic() - asked
        if stream:
            chunks = list(response.parse())
            text, usage = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices), chunks[-1].usage
        else:
            answer = response.parse()
            text, usage = answer.choices[0].message.content, answer.usage
        messages.append({"role": "assistant", "content": text})
        yield Turn(turn + 1, response.headers, usage, seconds)
