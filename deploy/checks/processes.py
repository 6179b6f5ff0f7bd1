"""Baler as a process of a check: on free loopback ports, ready, and stopped in any case."""

import os
import re
import signal
import subprocess
import threading

LISTENING = re.compile(r"listening on (http://\S+?) \(metrics and probes on (http://[^)\s]+)\)")
# Nothing of the caller's settings may reach Baler.
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(("BALER_", "OPENAI_"))}


class Baler:
    """`url` is what OPENAI_BASE_URL becomes, without /v1; `admin` the admin port; `log` what it said."""

    def __init__(self, program, *args, upstream="http://127.0.0.1:9/v1", env=None, preexec=None):
        command = [program, "serve", "--upstream", upstream, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", *args]
        self.log = []
        self.process = subprocess.Popen(command, env={**CLEAN, **(env or {})}, stderr=subprocess.PIPE, text=True, preexec_fn=preexec)
        for line in self.process.stderr:
            self.log.append(line)
            if found := LISTENING.search(line):
                self.url, self.admin = (address.rstrip("/").removesuffix("/v1") for address in found.groups())
                break
        else:
            raise SystemExit("Baler does not start:\n" + "".join(self.log))
        # The pipe must not fill up.
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        self.log.extend(self.process.stderr)

    def stop(self):
        """SIGTERM, and the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=40)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.kill()
        self.process.wait()
