#!/usr/bin/env python3
"""Derives the recordings of this folder from recordings of real agents, with filler in place of all prose.

    tests/recordings/derive.py FOLDER [OUTPUT]

FOLDER holds files `NAME.jsonl` with lines `{"dir": "c2a" | "a2c", "msg": {…}, "t": ms}`, and `{"dir": "note", "note": "start"}`
where a process starts. What comes out is described in README.md beside this file. The same input gives the same output.

What stays: methods, ids, order, kinds, statuses, the shape of everything, numbers, punctuation, and names that are facts (ids of
models, modes and options, names of tools). Each word of three letters or more becomes another word of the same length, the same one
wherever it occurs in a file, so texts that were equal are equal, and texts that began alike still do.
"""

import base64
import itertools
import json
import pathlib
import re
import sys

WORDS = """
bay bell block brake buffer cab car carriage coach coal coupling crane crossing curve cutting depot derail diesel diverge engine
express ferry flag freight gantry gauge grade gradient guard halt horn hump junction ladder lamp lantern lever line loop mail mile
milepost narrow oil pilot plate platform points porter quay rail ramp relay ride route sand semaphore shed shunt siding signal
signalbox sleeper slip smoke spur station steam stop summit switch tank tender terminus ticket timber timetable token tower track
train tram trestle truck tunnel turn turntable valley viaduct wagon water weigh whistle wire yard yardmaster
""".split()

# Words that mean something to whoever reads a text.
KEPT_WORDS = {"http", "https", "file", "true", "false", "null", "json", "bin", "bash"}
# Keys whose texts are facts, not prose.
KEPT_KEYS = {
    "action", "category", "configId", "currency", "currentModeId", "currentModelId", "currentValue", "encoding", "fileType", "format", "group", "id", "kind",
    "method", "methodId", "mimeType", "mode", "modeId", "modelId", "operation", "optionId", "outcome", "priority", "role", "sessionUpdate",
    "severity", "signal", "state", "status", "stopReason", "toolName", "type", "updatedAt", "value",
}
ID_KEY = re.compile(r"(Id|_id|Ids|[uU]uid)$")
# Objects whose `name` is the name of a tool.
TOOL_OBJECTS = {"x.ai/tool", "claudeCode", "update", "toolCall"}

HOME = re.compile(r"/home/user(?:/project)?")
WORD = re.compile(r"[A-Za-z]{3,}")

LONGEST_TEXT = 1200
LONGEST_LIST = 4
# Of notifications that are no ACP, so many of each method are kept a process.
MOST_FOREIGN = 2
CUT_LISTS = {"availableCommands", "availableModels", "options", "sessions"}


class Filler:
    """Gives each word another one, and never two words the same."""

    def __init__(self):
        self.given = {}
        self.words = {}

    def supply(self, length):
        for word in WORDS:
            if len(word) == length:
                yield word
        vowels, consonants = "aeiou", "bdfghklmnprstvw"
        sounds = [consonants if at % 2 == 0 else vowels for at in range(length)]
        for letters in itertools.product(*sounds):
            yield "".join(letters)

    def word(self, match):
        word = match.group(0)
        lower = word.lower()
        if lower in KEPT_WORDS:
            return word
        if lower not in self.given:
            supply = self.words.setdefault(len(lower), self.supply(len(lower)))
            taken = set(self.given.values())
            self.given[lower] = next(other for other in supply if other not in taken and other != lower)
        other = self.given[lower]
        if word.isupper():
            return other.upper()
        return other.capitalize() if word[0].isupper() else other

    def text(self, text):
        parts, end = [], 0
        for path in HOME.finditer(text):
            parts.append(WORD.sub(self.word, text[end:path.start()]))
            parts.append("/work/project" if path.group(0).endswith("/project") else "/work")
            end = path.end()
        parts.append(WORD.sub(self.word, text[end:]))
        return "".join(parts)

    def bytes(self, data):
        try:
            return self.text(data.decode()).encode()
        except UnicodeDecodeError:
            return b"\0" * len(data)


def is_bytes(value):
    return len(value) > 4 and all(isinstance(one, int) and 0 <= one < 256 for one in value)


def replaced(value, filler, wanted, key="", parent="", mime=None):
    """The value with filler for its prose; `wanted` are the choices that lists must keep."""
    if isinstance(value, dict):
        inner = {}
        for name, one in value.items():
            if name == "data" and isinstance(one, str) and ("mimeType" in value or key in ("output", "update")):
                inner[name] = replaced_data(one, filler, "mimeType" in value)
            else:
                inner[name] = replaced(one, filler, wanted, name, key)
        return inner
    if isinstance(value, list):
        if is_bytes(value):
            return list(filler.bytes(bytes(value)))
        if key in CUT_LISTS and len(value) > LONGEST_LIST:
            value = shortened(value, wanted)
        return [replaced(one, filler, wanted, key, parent) for one in value]
    if not isinstance(value, str):
        return value
    if key in KEPT_KEYS or ID_KEY.search(key) or (key == "name" and parent in TOOL_OBJECTS):
        return HOME.sub(lambda path: "/work/project" if path.group(0).endswith("/project") else "/work", value)
    text = filler.text(value)
    return text if key == "text" else text[:LONGEST_TEXT]


def replaced_data(data, filler, media):
    if media:
        return base64.b64encode(b"\0" * min(len(data), 12)).decode()
    try:
        raw = base64.b64decode(data, validate=True)
        if base64.b64encode(raw).decode() == data and raw:
            return base64.b64encode(filler.bytes(raw)).decode()
    except ValueError:
        pass
    return filler.text(data)


def shortened(value, wanted):
    name = lambda one: one.get("value") or one.get("modelId") or one.get("id") if isinstance(one, dict) else None
    kept = [one for at, one in enumerate(value) if at < LONGEST_LIST - 1 or name(one) in wanted]
    return kept


def choices(messages):
    """Every value that a recording sets or reports as set."""
    found = set()

    def look(value):
        if isinstance(value, dict):
            for key, one in value.items():
                if key in ("currentValue", "value", "modelId", "modeId", "currentModelId", "currentModeId") and isinstance(one, str):
                    if key in ("currentValue", "currentModelId", "currentModeId"):
                        found.add(one)
                look(one)
        elif isinstance(value, list):
            for one in value:
                look(one)

    for direction, message in messages:
        look(message)
        if direction == "c2a" and "params" in message:
            found.update(one for one in message["params"].values() if isinstance(one, str))
    return found


def processes(lines):
    """The messages of each process; lines that are no messages stay out."""
    all_of_them = []
    for line in lines:
        if line["dir"] == "note":
            if line.get("note") == "start":
                all_of_them.append([])
            continue
        if "raw" in line:
            if line["dir"] == "a2c":
                all_of_them[-1].append(("raw", line["raw"]))
            continue
        if isinstance(line["msg"], dict):
            all_of_them[-1].append((line["dir"], line["msg"]))
    return all_of_them


def session_of(message):
    return (message.get("params") or {}).get("sessionId")


def conversation(messages):
    """What concerns the session that was prompted most, as a client has it that keeps to the protocol: one prompt at a time, nothing
    for a session that is closed, no cancel while nothing runs. What the agent says stays."""
    prompts = [session_of(m) for d, m in messages if d == "c2a" and m.get("method") == "session/prompt"]
    if not prompts:
        return []
    main = max(prompts, key=prompts.count)
    asked = {json.dumps(m["id"]): m for d, m in messages if d == "c2a" and "method" in m and "id" in m}
    answers = {json.dumps(m["id"]): m for d, m in messages if d == "a2c" and "method" not in m and m.get("id") is not None}
    dropped, kept, running, closed, emptily = set(), [], None, False, None
    # In version 2 a prompt is answered at once, and the agent says when it is idle again.
    states = any(m.get("method") == "initialize" and m["params"].get("protocolVersion") == 2 for _, m in messages if isinstance(m, dict))
    for at, (direction, message) in enumerate(messages):
        if direction == "raw":
            kept.append((direction, message))
            continue
        method, key = message.get("method"), json.dumps(message.get("id"))
        if direction == "a2c" and method is None:
            if key == running and not states:
                running = None
            if key == emptily:
                emptily = None
            if key in asked and key not in dropped:
                kept.append((direction, message))
            continue
        if direction == "c2a" and method is not None:
            answer = answers.get(key, {}) if "id" in message else {}
            other = session_of(message) not in (None, main)
            another = method == "session/new" and (answer.get("result") or {}).get("sessionId") != main
            unknown = not re.match(r"initialize$|session/", method) and method != "$/cancel_request"
            empty = method == "session/prompt" and not message["params"]["prompt"]
            busy = method == "session/prompt" and running is not None
            if method == "$/cancel_request":
                # We say it with `session/cancel`, unless that follows anyway.
                after = messages[at + 1 :]
                until = [(d, m) for d, m in itertools.takewhile(lambda one: json.dumps(one[1].get("id")) != running, after)]
                method = "session/cancel"
                message = {"method": method, "params": {"sessionId": main}}
                other = any(m.get("method") == method for _, m in until)
            idle = method == "session/cancel" and running is None
            bad = answer.get("error") is not None and "no-such" in json.dumps(message.get("params"))
            if other or another or unknown or busy or idle or closed or empty or bad:
                dropped.add(key)
                if empty:
                    emptily = key
                continue
            if method == "session/prompt":
                running = key
            closed |= method == "session/close"
        update = (message.get("params") or {}).get("update") or {} if direction == "a2c" else {}
        if update.get("sessionUpdate") == "state_update" and update.get("state") == "idle" and session_of(message) == main:
            running = None
        if emptily is not None and direction == "a2c":
            # Said to nothing that we say.
            continue
        kept.append((direction, message))
    return kept


def compact(direction, message):
    if direction == "raw":
        return {"raw": message}
    message = {key: value for key, value in message.items() if key != "jsonrpc"}
    if message.get("method") == "initialize":
        message["params"] = {"protocolVersion": message["params"]["protocolVersion"]}
    return {direction: message}


def thinned(messages):
    """Without what only repeats: notifications of the vendor's own, and lists of commands that were told before."""
    seen, kept = {}, []
    for direction, message in messages:
        method = message.get("method", "") if direction == "a2c" else ""
        if method and "id" not in message and not method.startswith(("session/", "$/", "elicitation/")):
            seen[method] = seen.get(method, 0) + 1
            if seen[method] > MOST_FOREIGN:
                continue
        update = message["params"].get("update") if method == "session/update" else None
        if update and update.get("sessionUpdate") == "available_commands_update":
            seen["commands"] = seen.get("commands", 0) + 1
            if seen["commands"] > 1:
                update["availableCommands"] = update["availableCommands"][:1]
                update.pop("_meta", None)
        kept.append((direction, message))
    return kept


def left_in_a_prompt(messages):
    """Whether the process ended with a prompt unanswered."""
    prompts = [m["id"] for d, m in messages if d == "c2a" and m.get("method") == "session/prompt"]
    answered = [m.get("id") for d, m in messages if d == "a2c" and "method" not in m]
    return bool(prompts) and prompts[-1] not in answered


def derive(source, target):
    filler = Filler()
    lines = [json.loads(line) for line in source.read_text().splitlines() if line.strip()]
    with target.open("w") as out:
        for messages in processes(lines):
            messages = thinned(conversation(messages))
            if not messages:
                continue
            out.write('{"start":true}\n')
            wanted = choices([one for one in messages if one[0] != "raw"])
            for direction, message in messages:
                line = replaced(compact(direction, message), filler, wanted)
                out.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")
            if left_in_a_prompt(messages):
                out.write('{"exit":0}\n')


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    output = pathlib.Path(sys.argv[2]) if len(sys.argv) == 3 else pathlib.Path(__file__).parent
    for source in sorted(pathlib.Path(sys.argv[1]).glob("*.jsonl")):
        derive(source, output / source.name)


main()
