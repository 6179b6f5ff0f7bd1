"""Runs checks one after the other and prints a line for each, which `run` counts."""

import traceback


class Checks:
    """The checks of one part of the test; a decorator that collects them."""

    def __init__(self, part):
        self.part = part
        self.checks = []

    def __call__(self, check):
        self.checks.append(check)
        return check

    def run(self):
        """Runs all of them; the exit code."""
        failed = 0
        for check in self.checks:
            name = f"{self.part}: {check.__name__.replace('_', ' ')}"
            try:
                check()
                print(f"ok   {name}", flush=True)
            except Exception:
                failed += 1
                traceback.print_exc()
                print(f"FAIL {name}", flush=True)
        return 1 if failed else 0
