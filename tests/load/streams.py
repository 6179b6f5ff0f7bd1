"""Streams of events for `compare`: an upstream that sends the time with each event, and clients that look at the clock when it comes.

usage: python3 streams.py PORT     serves streams until it is stopped; the request says how many events, and how long between two
"""

import asyncio
import json
import statistics
import sys
import time

PATH = "/v1/chat/completions"


async def head_of(reader):
    """The fields of a head, and its first line."""
    lines = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in lines[1:] if b": " in line)
    return lines[0], fields


def event(content):
    data = json.dumps({"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": content}}]})
    line = f"data: {data}\n\n".encode()
    return b"%x\r\n%s\r\n" % (len(line), line)


async def serve(reader, writer):
    try:
        while True:
            _, fields = await head_of(reader)
            body = json.loads(await reader.readexactly(int(fields[b"content-length"])))
            events, pause = body["metadata"]["events"], body["metadata"]["pause"]
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            for _ in range(events):
                writer.write(event(str(time.monotonic_ns())))
                await writer.drain()
                await asyncio.sleep(pause)
            writer.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def stream(port, events, pause, delays, firsts):
    """Reads one stream: the time that each event took, and the time to the first, both in ms."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = json.dumps({"model": "gpt-4o", "stream": True, "messages": [{"role": "user", "content": "Go on."}],
                       "metadata": {"events": events, "pause": pause}}).encode()
    began = time.monotonic_ns()
    writer.write(f"POST {PATH} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nauthorization: Bearer test\r\n"
                 f"content-length: {len(body)}\r\n\r\n".encode() + body)
    seen = 0
    while line := await reader.readline():
        if line.startswith(b"data: [DONE]"):
            break
        if line.startswith(b"data: "):
            now = time.monotonic_ns()
            sent = int(json.loads(line[6:])["choices"][0]["delta"]["content"])
            delays.append((now - sent) / 1e6)
            if not seen:
                firsts.append((now - began) / 1e6)
            seen += 1
    writer.close()
    return seen == events


async def many(port, streams, events, pause):
    delays, firsts = [], []
    # Connections are opened over the pause between two events, so that the events are spread as well.
    async def one(nth):
        await asyncio.sleep(pause * nth / streams)
        return await stream(port, events, pause, delays, firsts)
    whole = await asyncio.gather(*(one(nth) for nth in range(streams)), return_exceptions=True)
    delays.sort()
    return {"event_p50_ms": statistics.median(delays), "event_p99_ms": delays[len(delays) * 99 // 100],
            "first_event_p50_ms": statistics.median(firsts), "errors": sum(one is not True for one in whole)}


def measure(port, streams, events, pause):
    """So many streams at once through a port."""
    return asyncio.run(many(port, streams, events, pause))


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]), backlog=4096)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
