"""Every alert has a summary, a cause and an action, and a test that lets it fire. Rules name only metrics that exist.

usage: alerts.py FILE_WITH_METRICS    (what /metrics answers)
"""

import os
import re
import sys

import yaml

HERE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "prometheus")
# Their type lines are in the answer from the first one on; those of histograms stand for three names.
SUFFIXES = ("", "_bucket", "_sum", "_count")


def read(name):
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        return file.read()


def metrics_of(expression):
    return set(re.findall(r"\bbaler_[a-z_]+", expression))


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        known = set(re.findall(r"(?m)^# TYPE (baler_[a-z_]+) ", file.read()))
    rules = [rule for group in yaml.safe_load(read("baler.rules.yaml"))["groups"] for rule in group["rules"]]
    tests = read("baler.rules.test.yaml") + read("baler.cache.test.yaml")
    failures = []
    for rule in rules:
        name = rule.get("alert") or rule["record"]
        unknown = {m for m in metrics_of(rule["expr"]) if not any(m == k + s for k in known for s in SUFFIXES)}
        if unknown:
            failures.append(f"{name}: no such metric: {unknown}")
        if "alert" in rule:
            if set(rule["annotations"]) != {"summary", "cause", "action"} or rule["labels"].get("severity") not in ("info", "warning", "critical"):
                failures.append(f"{name}: needs a severity, and a summary, a cause and an action")
            if f'{{alertname="{name}"}}' not in tests and f"alertname: {name}" not in tests:
                failures.append(f"{name}: no test lets it fire")
    print(*failures, f"rules: {len(rules)} looked at, {len(failures)} failed", sep="\n")
    sys.exit(1 if failures or len(rules) < 20 else 0)


main()
