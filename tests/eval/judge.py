#!/usr/bin/env python3
"""Runs the judges of digests over recorded conversations, and compares what they find with the floors.

    judge.py BALER EVAL_DIR TRACES_DIR [--sample] [--record] [--table [RATIO,…]] [--by-room] [--of SET]
    judge.py BALER EVAL_DIR TRACES_DIR --blind DIR [--seed N] [--half odd|even]
    judge.py BALER EVAL_DIR TRACES_DIR --answers DIR

--sample takes part of the cases of each file. --record prints the floors that follow from what is found, instead of comparing.
--table prints a table for conversations in odd / even lines of each file, at these ratios: the curve of what room buys. With --by-room
the cases are told apart by the tokens that the target leaves beside the messages that stay: the first and last user message and the newest
exchange.
--blind writes decisions that someone is to make from one form of the messages alone, and --answers compares what they decided.
EVAL_DIR holds quality.py (facets: values, fields, words, lines, honesty) and probes.py (made-up conversations).
"""
import argparse, json, os, re, subprocess, sys, tempfile, time  # noqa: E401

import blind

HERE = os.path.dirname(os.path.abspath(__file__))
RATIOS = (0.4, 0.25)
# Every so many cases of a file are taken for a sample; the long session has few cases, and each is large.
SAMPLE = {"airline-agent": 40, "coding-agent": 240, "coding-session": 60, "retail-agent": 60, "travel-zh": 150}
# Windows in which the longer conversations of a set are compacted several times: what is left when the policy decides by itself.
WINDOWS = {"coding-agent": 12_000, "coding-session": 32_000, "retail-agent": 7_000, "travel-zh": 7_000}
WALK = "walk"
# Tokens of room from which on cases are told apart.
ROOMS = (0, 100, 400, 1_500)
# What a floor lies below the figure that it was recorded from.
SLACK = {"share": 0.03, "per_100": 1.0, "passed": 0}
SHARES = ("values", "values_in_context", "fields_own", "fields_all", "replies", "lines", "user_words", "assistant_words")
COUNTS = ("short_tables", "silent_calls")


def adapted(quality):
    """Teaches the judge today's notation: the patterns of adapter.txt."""
    with open(os.path.join(HERE, "adapter.txt"), encoding="utf-8") as file:
        for line in file:
            name, _, pattern = line.rstrip("\n").partition(" = ")
            if pattern and not line.startswith("#") and hasattr(quality, name):
                setattr(quality, name, re.compile(pattern))


def run_of(args, name, ratio, every):
    """The options of the judge, and the command that it judges: down to a ratio, or as a window of the set's own has it."""
    options = argparse.Namespace(ratio=0.4, min_tokens=1500, every=every if args.sample else 1, baseline=None, model="gpt-4o")
    if ratio != WALK:
        options.ratio = ratio
        return options, [args.baler, "compact", "--target-ratio", str(ratio)]
    options.min_tokens = WINDOWS[name]
    options.every = max(1, options.every // 4)
    config = os.path.join(args.work, f"{name}.toml")
    with open(config, "w", encoding="utf-8") as file:
        file.write(f'[[policy]]\nname = "walk"\nwindow = {WINDOWS[name]}\n')
    return options, [args.baler, "compact", "--config", config]


def figures(quality, args):
    """(set, ratio, facet, figure) of everything."""
    for name, every in SAMPLE.items():
        path = os.path.join(args.traces, name + ".jsonl")
        if args.of not in (None, name): continue
        if not os.path.exists(path):
            print(f"SKIPPED: {path} is not there", flush=True)
            continue
        for ratio in (*RATIOS, *([WALK] if name in WINDOWS else [])):
            report = quality.evaluate(path, *run_of(args, name, ratio, every))
            print(f"{name} {ratio}: {report['cases']} cases, kept {report['kept']}, broken {report['broken']}", flush=True)
            yield name, ratio, "broken", report["broken"]
            for facet in SHARES:
                # A handful of cases says nothing.
                if report["facets"][facet]["of"] >= 20:
                    yield name, ratio, facet, report["facets"][facet]["score"]
            for facet in COUNTS:
                yield name, ratio, facet, report["facets"][facet]["per_100"]


def probes(args):
    """Probes that pass."""
    command = [sys.executable, os.path.join(args.eval, "probes.py"), "--", args.baler, "compact", "--target-ratio", "{ratio}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    failed = [line for line in done.stdout.split("\n") if line.startswith("FAIL")]
    print("\n".join(failed), flush=True)
    passed, of = re.search(r"^(\d+) of (\d+) probes passed$", done.stdout, re.M).groups()
    print(f"{passed} of {of} probes passed", flush=True)
    return int(passed)


def results_of(quality, args, pasts, ratio):
    """What Baler leaves of each list, or a rival in the same number of tokens."""
    if args.rival:
        return [quality.BASELINES[args.rival](past, blind.limit_of(quality, past, ratio)) for past in pasts]
    room = ["--room", args.room] if args.room else []
    return quality.compact([args.baler, "compact", "--target-ratio", str(ratio), *room], pasts)


def room_of(quality, past, ratio):
    """The tokens that a ratio leaves beside the messages that stay."""
    head = quality.tokens(past[:quality.head_len(past)])
    return max(0, blind.limit_of(quality, past, ratio) - head - quality.floor(past))


def shares_of(quality, args, path, ratio):
    """{room: [{facet: (found, of)}]} of the cases with so much room or more, all in one without --by-room: for the conversations in odd
    lines of a file, and for those in even ones. "kept" is the share of the tokens."""
    cases = list(quality.cases_of(path, 1500))
    results = results_of(quality, args, [past for _, past, _ in cases], ratio)
    sums = {}
    for (number, past, message), result in zip(cases, results):
        room = max(least for least in ROOMS if least <= room_of(quality, past, ratio)) if args.by_room else 0
        half = sums.setdefault(room, ({}, {}))[number % 2]
        head = quality.tokens(past[:quality.head_len(past)])
        kept = quality.tokens(past if result is None else result) - head
        facets = quality.judge(past, message, result) | {"decisions": blind.decided(quality, past, message, result)}
        for facet, (found, of) in (facets | {"kept": (kept, quality.tokens(past) - head)}).items():
            before = half.get(facet, (0, 0))
            half[facet] = (before[0] + found, before[1] + of)
    return sums


def table(quality, args):
    """Prints the shares of all facets by set and ratio, odd / even, where there are enough to say something."""
    facets = ["kept", *SHARES[1:], "decisions"]
    columns = ["set", "ratio", *["room"] * args.by_room, *facets]
    print("| " + " | ".join(columns).replace("_", " ") + " |\n" + "| --- " * len(columns) + "|", flush=True)
    for name in SAMPLE:
        path = os.path.join(args.traces, name + ".jsonl")
        if args.of not in (None, name) or not os.path.exists(path):
            continue
        for ratio in map(float, args.table.split(",")):
            for room, halves in sorted(shares_of(quality, args, path, ratio).items()):
                row = [name, str(ratio), *[f"{room} or more"] * args.by_room]
                row += [cell_of([sums.get(facet, (0, 0)) for sums in halves if sums]) for facet in facets]
                print("| " + " | ".join(row) + " |", flush=True)


def cell_of(halves):
    shares = [f"{found / of:.2f}".lstrip("0") if of >= 20 else "–" for found, of in halves]
    return "–" if set(shares) == {"–"} else " / ".join(shares)


def is_count(facet):
    return facet in COUNTS or facet == "broken"


def floor_of(facet, figure):
    if facet == "broken": return 0
    if facet == "passed": return figure
    if facet in COUNTS: return round(figure + SLACK["per_100"], 1) if figure else 0
    return round(max(0, figure - SLACK["share"]), 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("baler", "eval", "traces"): parser.add_argument(name)
    parser.add_argument("--sample", action="store_true")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--table", nargs="?", const=",".join(map(str, RATIOS)))
    parser.add_argument("--by-room", action="store_true")
    parser.add_argument("--of")
    parser.add_argument("--room")
    parser.add_argument("--rival")
    parser.add_argument("--blind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--half", choices=("odd", "even"), default="even")
    parser.add_argument("--answers")
    args = parser.parse_args()
    sys.path.insert(0, args.eval)
    import quality  # noqa: E402
    adapted(quality)
    if args.table:
        table(quality, args)
        return
    if args.blind:
        blind.write(quality, args)
        return
    if args.answers:
        blind.score(args)
        return
    started = time.time()
    found = {("probes", "-", "passed"): probes(args)}
    with tempfile.TemporaryDirectory() as args.work:
        found.update({(name, str(ratio), facet): figure for name, ratio, facet, figure in figures(quality, args)})
    kind = "sample" if args.sample else "all"
    if args.record:
        for (name, ratio, facet), figure in found.items():
            print("\t".join((kind, name, ratio, facet, str(floor_of(facet, figure)))))
        return
    missed = []
    with open(os.path.join(HERE, "floors.tsv"), encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file if line.strip() and not line.startswith("#")]
    compared = 0
    for of, name, ratio, facet, floor in rows:
        figure = found.get((name, ratio, facet))
        if of != kind or figure is None: continue
        compared += 1
        if figure > float(floor) if is_count(facet) else figure < float(floor):
            missed.append(f"{name} {ratio} {facet}: {figure}, and {'at most' if is_count(facet) else 'at least'} {floor} is wanted")
    print(f"{compared} figures compared in {time.time() - started:.0f} s", flush=True)
    if missed or not compared:
        sys.exit("FAILED: " + ("\n".join(missed) or "there is nothing to compare"))


if __name__ == "__main__":
    main()
