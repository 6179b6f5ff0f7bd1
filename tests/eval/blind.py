"""Decisions to be made blindly: which call comes next, by a reader who sees one form of the messages only.

`write` makes one file of cases a form: the whole list, digests, and the best simple rival, cleared results, at the same ratios. Someone
(a person, a model) reads one of these files, and nothing else, and writes `answers-FORM.json` beside it: a list of
{"case": n, "name": tool, "arguments": {…}}, with "UNKNOWN" for a value that is not shown. `score` compares with what was called.
"""
import json, os, random  # noqa: E401

# Decisions a file of conversations, one a conversation at most.
DECISIONS = {"airline-agent": 16, "retail-agent": 8}
# Messages before a decision, at least, and characters of its arguments.
LEAST_MESSAGES, LEAST_ARGUMENTS = 14, 30
RATIOS = (0.4, 0.25)
# Calls that are told by their name: what they say is free.
FREE = ("think", "calculate", "transfer_to_human_agents")
# How the names of calls begin that change something.
CHANGES = ("book", "cancel", "exchange", "modify", "return", "send", "update")


def arguments_of(call):
    return json.loads(call["function"]["arguments"])


def picked(quality, path, half, count):
    """Decisions [(past, message)] from the later half of the calls of so many conversations."""
    by_conversation = {}
    for number, past, message in quality.cases_of(path, 1500):
        if number % 2 == half and message.get("tool_calls") and len(past) >= LEAST_MESSAGES:
            by_conversation.setdefault(number, []).append((past, message))
    numbers = sorted(by_conversation)
    random.shuffle(numbers)
    chosen = []
    for number in numbers:
        long = [case for case in by_conversation[number] if len(json.dumps(arguments_of(case[1]["tool_calls"][0]))) > LEAST_ARGUMENTS]
        if long and len(chosen) < count:
            chosen.append(random.choice(long[len(long) // 2:]))
    return chosen


def parameters_in(path):
    """The parameters of each tool, as calls in a file name them."""
    found = {}
    with open(path, encoding="utf-8") as file:
        for message in (message for line in file for message in json.loads(line)["messages"]):
            for call in message.get("tool_calls") or []:
                try:
                    found.setdefault(call["function"]["name"], set()).update(arguments_of(call))
                except ValueError:
                    continue
    return "; ".join(f"{name}: {', '.join(sorted(found[name]))}" for name in sorted(found))


def shown(number, tools, messages):
    """A case as it is read."""
    out = [f"##### CASE {number}", "Tools (name: parameters): " + tools]
    for message in messages:
        out.append("--- " + message["role"] + (f" (result of {message['tool_call_id']})" if message["role"] == "tool" else ""))
        content = message.get("content")
        if content:
            out.append(content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content))
        calls = message.get("tool_calls") or []
        out.extend(f"[calls {call['id']}] {call['function']['name']}({call['function']['arguments']})" for call in calls)
    return "\n".join(out)


def write(quality, args):
    """Writes the cases and what was called."""
    random.seed(args.seed)
    half = 0 if args.half == "odd" else 1
    cases, tools = [], []
    for name, count in DECISIONS.items():
        path = os.path.join(args.traces, name + ".jsonl")
        chosen = picked(quality, path, half, count)
        cases += chosen
        tools += [parameters_in(path)] * len(chosen)
    pasts = [past for past, _ in cases]
    forms = {"full": pasts}
    for ratio in RATIOS:
        forms[f"digest-{ratio}"] = quality.compact([args.baler, "compact", "--target-ratio", str(ratio)], pasts)
        forms[f"cleared-{ratio}"] = [quality.BASELINES["clear_results"](past, limit_of(quality, past, ratio)) for past in pasts]
    os.makedirs(args.blind, exist_ok=True)
    for form, lists in forms.items():
        with open(os.path.join(args.blind, form + ".txt"), "w", encoding="utf-8") as file:
            file.write("\n\n".join(shown(at, tools[at], messages) for at, messages in enumerate(lists)))
        print(f"{form}: {len(lists)} cases, {sum(map(quality.tokens, lists))} tokens")
    with open(os.path.join(args.blind, "called.json"), "w", encoding="utf-8") as file:
        json.dump([message["tool_calls"][0] for _, message in cases], file)


def limit_of(quality, past, ratio):
    """The tokens of a list of which so much of what follows its head is left."""
    head = quality.tokens(past[:quality.head_len(past)])
    return head + int(ratio * (quality.tokens(past) - head))


def plain(value):
    """A value without what makes no difference: the order of lists, blanks around, 2.0 for 2."""
    if isinstance(value, dict): return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list): return sorted(map(plain, value), key=json.dumps)
    if isinstance(value, float) and value.is_integer(): return int(value)
    return value.strip() if isinstance(value, str) else value


def leaves(value, key=""):
    if isinstance(value, dict): return [leaf for inner in value for leaf in leaves(value[inner], f"{key}.{inner}")]
    if isinstance(value, list): return [leaf for inner in value for leaf in leaves(inner, key)]
    return [(key, str(value))]


def decided(quality, past, message, result):
    """(all values that the next call takes from the list are left, 1) where it changes something; else (0, 0)."""
    calls = message.get("tool_calls") or []
    if not calls or not calls[0]["function"]["name"].startswith(CHANGES): return 0, 0
    before, after = ("\n".join(map(quality.text_of, messages)) for messages in (past, past if result is None else result))
    values = [value for _, value in leaves(arguments_of(calls[0])) if len(value) > 2 and value in before]
    return (int(all(value in after for value in values)), 1) if values else (0, 0)


def score(args):
    """Prints a table of how many decisions, and values of their arguments, each form led to."""
    with open(os.path.join(args.answers, "called.json"), encoding="utf-8") as file:
        called = json.load(file)
    print("| form | decisions as they were made | tools | values | unknown | wrong |\n" + "| --- " * 6 + "|")
    for name in sorted(os.listdir(args.answers)):
        if not name.startswith("answers-"):
            continue
        with open(os.path.join(args.answers, name), encoding="utf-8") as file:
            answers = {answer["case"]: answer for answer in json.load(file)}
        exact = tools = found = of = unknown = wrong = 0
        for at, call in enumerate(called):
            answer = answers.get(at, {"name": None, "arguments": {}})
            same = answer["name"] == call["function"]["name"]
            tools += same
            if call["function"]["name"] in FREE:
                exact += same
                continue
            wanted, given = plain(arguments_of(call)), plain(answer["arguments"]) if same else {}
            exact += given == wanted
            given = leaves(given)
            for leaf in leaves(wanted):
                of += 1
                if leaf in given:
                    given.remove(leaf)
                    found += 1
            unknown += sum("UNKNOWN" in value for _, value in given)
            wrong += sum("UNKNOWN" not in value for _, value in given)
        form = name.removeprefix("answers-").removesuffix(".json")
        print(f"| {form} | {exact} of {len(called)} | {tools} | {found} of {of} | {unknown} | {wrong} |")
