"""Measures what the sizing table of deploy/README.md says: memory of an idle Baler and of open streams, CPU time of a request.

usage: sizing.py PATH_TO_BALER      with the scripted API of tests/e2e; takes a minute
"""

import json
import os
import resource
import socket
import subprocess
import sys
import time
import urllib.request
from urllib.parse import urlparse

from processes import Baler

UPSTREAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "e2e", "upstream.py")
STREAMS = 400


def resident(pid):
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / (1 << 20)


def cpu(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def conversation(kilobytes, number=0):
    messages = [{"role": "system", "content": f"Conversation {number}."}]
    turn = 0
    while sum(len(m["content"]) for m in messages) < kilobytes * 1000:
        messages.append({"role": "user", "content": f"{number}/{turn}: " + ", ".join(f"order {turn}-{i} costs {i * 37 % 91} EUR" for i in range(40))})
        messages.append({"role": "assistant", "content": f"Noted, {turn}."})
        turn += 1
    return [*messages, {"role": "user", "content": "Go on."}]


def post(url, body):
    request = urllib.request.Request(f"{url}/v1/chat/completions", body, {"content-type": "application/json", "authorization": "Bearer k"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        answer.read()
        return answer.headers["x-baler-action"]


def body_of(kilobytes, model, number=0, extra=None):
    return json.dumps({"model": model, "messages": conversation(kilobytes, number) + (extra or []), "stream": bool(extra)}).encode()


def measured(baler, title, bodies):
    """CPU milliseconds of a request, and what was done with the last."""
    pid = baler.process.pid
    before, actions = cpu(pid), [post(baler.url, body) for body in bodies]
    print(f"{title}: {(cpu(pid) - before) / len(actions) * 1000:.2f} ms CPU, {actions[-1]}, body {len(bodies[-1]) // 1000} kB, resident {resident(pid):.0f} MiB", flush=True)


def main():
    server = subprocess.Popen([sys.executable, UPSTREAM], stdout=subprocess.PIPE, text=True)
    try:
        # The time that planning may take is not what is measured: the machine may be busy.
        with Baler(sys.argv[1], env={"BALER_LIMITS__PLAN_TIMEOUT": "30s"}, upstream=server.stdout.readline().split()[0]) as baler:
            time.sleep(2)
            pid = baler.process.pid
            print(f"idle: {resident(pid):.0f} MiB")
            post(baler.url, body_of(15, "large-1"))
            measured(baler, "15 kB, nothing to do", [body_of(15, "large-1")] * 1500)
            measured(baler, "150 kB, below the trigger", [body_of(150, "large-1", 1)] * 300)
            growing = conversation(300, 2)
            measured(baler, "300 kB, a growing conversation", [json.dumps({"model": "large-1", "messages": growing + [{"role": "assistant", "content": "ok"}, {"role": "user", "content": f"turn {t}"}] * (t + 1)}).encode() for t in range(100)])
            measured(baler, "500 kB, new and compacted", [body_of(500, "large-1", 100 + n) for n in range(20)])
            host, before, streams = urlparse(baler.url), resident(pid), []
            text = body_of(15, "large-1", 3, [{"role": "user", "content": "do: hold sizing"}])
            for _ in range(STREAMS):
                stream = socket.create_connection((host.hostname, host.port))
                stream.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer k\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(text) + text)
                streams.append(stream)
            for stream in streams:
                stream.recv(100)
            print(f"{STREAMS} open streams: {(resident(pid) - before) * 1024 / STREAMS:.0f} KiB each")
    finally:
        server.kill()


main()
