#!/usr/bin/env python3
"""Plays the scenes of a working day with real agents through signalbox, and says of each whether it holds.

    python3 tests/agents/scenes.py --signalbox BIN --agent NAME=SPEC.json [--agent …] [--only text,plan,…]

NAME is the provider (`opencode`, `claude_code`, …, or one of your own); SPEC.json says how it is started, as in
`config.toml`: {"command": …, "args": […], "env": {…}, "set_mode": the mode in which it asks}. Standard library only.

Each prompt says in words what to do and ends with a tag such as [[bash]]. A model takes the words; a scripted
model (an HTTP server that plays a model API, for runs without an account) takes the tag. With --model-dump FILE, where
such a server writes the requests it gets (JSON lines), the scene `restart` also checks that the model was given what
was said before.

The result is a table: agent, scene, result. Exit code 0 if everything holds or is skipped with a reason.
"""
import argparse
import json
import os
import pathlib
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

PATIENCE_S = 150
OUTSIDE = "outside.txt"


class Trouble(Exception):
    """Something did not hold."""


class Skipped(Exception):
    """The agent does not offer what the scene is about."""


def check(condition, what):
    if not condition:
        raise Trouble(what)


class Client:
    """A client on the standard streams of `signalbox app-server`."""

    def __init__(self, command, env, cwd):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, cwd=cwd,
                                        encoding="utf-8", start_new_session=True)
        self.inbox, self.notices, self.last_id = queue.Queue(), [], 0
        threading.Thread(target=self.read, daemon=True).start()
        self.call("initialize", {"clientInfo": {"name": "scenes", "version": "1"}, "capabilities": {"experimentalApi": True}})
        self.send({"method": "initialized"})

    def read(self):
        for line in self.process.stdout:
            self.inbox.put(json.loads(line))
        self.inbox.put(None)

    def send(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def receive(self, until):
        try:
            message = self.inbox.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            raise Trouble("nothing more came in time") from None
        if message is None:
            raise Trouble("the connection ended")
        if "method" in message:
            self.notices.append(message)
        return message

    def call(self, method, params, patience=PATIENCE_S):
        self.last_id += 1
        number = self.last_id
        self.send({"id": number, "method": method, "params": params})
        until = time.monotonic() + patience
        while True:
            message = self.receive(until)
            if "method" not in message and message.get("id") == number:
                if "error" in message:
                    raise Trouble(f"{method}: {message['error']['message']}")
                return message["result"]

    def wait(self, wanted, patience=PATIENCE_S):
        """The first message for which `wanted` holds, of those not looked at yet."""
        until = time.monotonic() + patience
        while True:
            while self.notices:
                message = self.notices.pop(0)
                if wanted(message):
                    return message
            self.receive(until)

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()


ASKS = {"approved shell", "declined shell", "edit inside", "write outside", "cancel with an approval open", "mode"}


class Stage:
    """One agent, one home, one working folder."""

    def __init__(self, binary, name, spec, dump, work):
        self.binary, self.name, self.dump = str(pathlib.Path(binary).resolve()), name, dump
        self.root = pathlib.Path(tempfile.mkdtemp(prefix=f"scenes-{name}-"))
        self.home, self.work = self.root / "home", pathlib.Path(work).resolve() if work else self.root / "work"
        for folder in (self.home, self.work):
            folder.mkdir(mode=0o700, exist_ok=True)
        (self.work / "README.md").write_text("# A small project\n\nIt has a readme.\n")
        if not (self.work / ".git").exists():
            subprocess.run(["git", "init", "-q", "-b", "main"], cwd=self.work, check=True)
        env = "".join(f"{json.dumps(key)} = {json.dumps(value)}\n" for key, value in spec.get("env", {}).items())
        lines = [f'default_provider = "{name}"', f"[providers.{name}]", f"command = {json.dumps(spec['command'])}",
                 f"args = {json.dumps(spec.get('args', []))}"]
        if spec.get("set_mode"):
            lines.append(f"ask_mode = {json.dumps(spec['set_mode'])}")
        if spec.get("protocol"):
            lines.append(f"protocol = {spec['protocol']}")
        config = self.home / "config.toml"
        config.write_text("\n".join(lines) + f"\n[providers.{name}.env]\n" + env)
        config.chmod(0o600)
        self.env = {"PATH": os.environ["PATH"], "HOME": str(self.root), "SIGNALBOX_HOME": str(self.home), "LANG": "C.UTF-8"}
        self.client = self.connect()
        providers = self.client.call("provider/list", {})["data"]
        self.asks = next(one["mediated"] for one in providers if one["id"] == name)

    def connect(self):
        return Client([self.binary, "app-server"], self.env, self.work)

    def server_pid(self):
        for line in (self.home / "lock").read_text().splitlines():
            if line.startswith("pid"):
                return int(line.split("=")[1])
        raise Trouble("no server in the lock file")

    def thread(self, **more):
        params = {"cwd": str(self.work), "approvalPolicy": "untrusted", "sandbox": "workspace-write", **more}
        return self.client.call("thread/start", params)["thread"]["id"]

    def start(self, thread, text):
        prompt = [{"type": "text", "text": text}]
        return self.client.call("turn/start", {"threadId": thread, "input": prompt})["turn"]["id"]

    def follow(self, thread, turn, answer=None, act=None):
        """Until the turn ends. `answer(request)` gives the result for each request; `act(message)` sees every message."""
        asked, warnings = [], []

        def ended(message):
            method, params = message["method"], message.get("params") or {}
            if "id" in message:
                asked.append(message)
                reply = answer(message) if answer else None
                if reply is not None:
                    self.client.send({"id": message["id"], "result": reply})
            if method == "warning":
                warnings.append(params.get("message", ""))
            if act:
                act(message)
            return method == "turn/completed" and params["turn"]["id"] == turn

        done = self.client.wait(ended)["params"]["turn"]
        read = self.client.call("thread/read", {"threadId": thread, "includeTurns": True})["thread"]
        stored = next(one for one in read["turns"] if one["id"] == turn)
        open_items = [item for item in stored["items"] if item.get("status") == "inProgress"]
        check(not open_items, f"items left open: {open_items}")
        return Turn(done, stored["items"], asked, warnings)

    def turn(self, thread, text, answer=None, act=None):
        return self.follow(thread, self.start(thread, text), answer, act)

    def close(self):
        self.client.close()
        subprocess.run([self.binary, "stop", "--force"], env=self.env, cwd=self.work, stdout=subprocess.DEVNULL)
        left = {}
        for pid in pathlib.Path("/proc").iterdir():
            if pid.name.isdigit() and self.owns(pid):
                left[pid.name] = (pid / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:200]
                os.kill(int(pid.name), signal.SIGKILL)
        shutil.rmtree(self.root, ignore_errors=True)
        check(not left, f"processes left: {left}")

    def owns(self, pid):
        try:
            return f"SIGNALBOX_HOME={self.home}".encode() in (pid / "environ").read_bytes() or str(self.root).encode() in (pid / "cmdline").read_bytes()
        except OSError:
            return False


class Turn:
    def __init__(self, ended, items, asked, warnings):
        self.status, self.error, self.items = ended["status"], ended.get("error"), items
        self.asked, self.warnings = asked, warnings

    def text(self, kind="agentMessage"):
        if kind == "reasoning":
            return "\n".join("".join(item.get("summary", [])) for item in self.items if item["type"] == kind)
        return "\n".join(item.get("text", "") for item in self.items if item["type"] == kind)

    def of(self, *kinds):
        return [item for item in self.items if item["type"] in kinds]

    def completed(self):
        check(self.status == "completed", f"the turn is {self.status}: {self.error}")
        return self


def approve(decision):
    """Answers approvals of commands and edits; questions with their first option."""
    def answer(request):
        method, params = request["method"], request["params"]
        if method in ("item/commandExecution/requestApproval", "item/fileChange/requestApproval"):
            return {"decision": decision}
        if method == "item/tool/requestUserInput":
            question = params["questions"][0]
            kinds = {option["optionId"]: option["kind"] for option in params.get("options", [])}
            wanted = "allow_once" if decision == "accept" else "reject_once"
            chosen = next((option for option in params.get("options", []) if kinds[option["optionId"]] == wanted), None)
            label = chosen["name"] if chosen else (question.get("options") or [{"label": "yes"}])[0]["label"]
            return {"answers": {question["id"]: {"answers": [label]}}}
        if method == "mcpServer/elicitation/request":
            return {"action": "accept", "content": first_choices(params.get("requestedSchema") or {})}
        return {}
    return answer


def first_choices(schema):
    content = {}
    for name, field in (schema.get("properties") or {}).items():
        choices = field.get("oneOf") or field.get("enum")
        if choices:
            content[name] = choices[0].get("const") if isinstance(choices[0], dict) else choices[0]
        elif field.get("type") == "array":
            items = field.get("items", {})
            choices = items.get("oneOf") or items.get("anyOf") or items.get("enum") or []
            content[name] = [choices[0].get("const") if isinstance(choices[0], dict) else choices[0]] if choices else []
        elif field.get("type") == "boolean":
            content[name] = True
        elif field.get("type") in ("integer", "number"):
            content[name] = 1
        else:
            content[name] = "blue"
    return content


# The scenes. Each gets a stage and says what is worth to be told, or nothing.

def text(stage):
    turn = stage.turn(stage.thread(), "Say a few words about trains. [[text]]").completed()
    check(len(turn.text()) > 10, f"no answer: {turn.items}")


def thinking(stage):
    turn = stage.turn(stage.thread(), "Think before you answer: why do trains need signals? [[think]]").completed()
    check(turn.text().strip(), "no answer")
    if not turn.text("reasoning").strip():
        raise Skipped("the agent tells no thoughts of this model")


def approved_shell(stage):
    file = stage.work / "out.txt"
    file.unlink(missing_ok=True)
    turn = stage.turn(stage.thread(), "Run `echo hello-from-tool > out.txt; cat out.txt`. [[bash]]", approve("accept")).completed()
    check(turn.asked, "nothing was asked")
    check(file.exists(), "the command did not run")
    command = turn.of("commandExecution")
    check(command and command[0]["status"] == "completed", f"{command}")
    told = command[0].get("aggregatedOutput") or ""
    check(not told or "hello-from-tool" in told, f"this is not what it wrote: {told}")
    return None if told else "the agent does not tell what it wrote"


def declined_shell(stage):
    file = stage.work / "out.txt"
    file.unlink(missing_ok=True)
    thread = stage.thread()
    turn = stage.turn(thread, "Run `echo hello-from-tool > out.txt; cat out.txt`. [[bash]]", approve("decline"))
    check(turn.asked, "nothing was asked")
    check(not file.exists(), "the command ran")
    command = turn.of("commandExecution")
    check(command and command[0]["status"] == "declined", f"{command}")
    stage.turn(thread, "Say a few words. [[text]]").completed()
    return f"turn {turn.status}"


def outside(stage):
    file = stage.work.parent / OUTSIDE
    file.unlink(missing_ok=True)
    turn = stage.turn(stage.thread(), f"Write a file {file} with two lines. [[outside]]", approve("decline"))
    check(not file.exists(), "it was written though it was declined")
    if not turn.asked:
        raise Skipped(f"the agent refuses it itself: {[item.get('status') for item in turn.items if 'status' in item]}")
    return f"turn {turn.status}"


def plan(stage):
    plans = []
    see = lambda message: plans.append(message["params"]["plan"]) if message["method"] == "turn/plan/updated" else None
    turn = stage.turn(stage.thread(), "Make a todo list with three entries. [[plan]]", approve("accept"), see).completed()
    if plans:
        check(plans[-1], "the plan is empty")
        return f"{len(plans[-1])} entries"
    tools = [item.get("tool") or item.get("command") for item in turn.of("dynamicToolCall", "mcpToolCall")]
    raise Skipped(f"no plan is told; tools: {tools}")


def question(stage):
    turn = stage.turn(stage.thread(), "Ask me which colour I like, with the tool for it. [[ask]]", approve("accept")).completed()
    asked = [request["method"] for request in turn.asked]
    if not asked:
        raise Skipped(f"the agent asks nothing: {[item['type'] for item in turn.items]}")
    return ", ".join(asked)


def interrupting(stage, prompt, ready):
    """Interrupts once `ready(message)` holds; then a further prompt must work."""
    thread = stage.thread()
    turn = stage.start(thread, prompt)
    state = {}

    def act(message):
        if "at" not in state and ready(message):
            state["at"] = time.monotonic()
            stage.client.send({"id": "interrupt", "method": "turn/interrupt", "params": {"threadId": thread, "turnId": turn}})

    never = lambda _: None
    accept = approve("accept")
    ended = stage.follow(thread, turn, accept if "sleep" in prompt else never, act)
    check("at" in state, "there was nothing to interrupt")
    took = time.monotonic() - state["at"]
    check(ended.status == "interrupted", f"the turn is {ended.status}: {ended.error}")
    check(took < 12, f"it took {took:.1f} s")
    stage.turn(thread, "Say a few words. [[text]]").completed()
    return f"{took * 1000:.0f} ms"


def cancel_text(stage):
    return interrupting(stage, "Count slowly to a hundred. [[slow]]", lambda message: message["method"] == "item/agentMessage/delta")


def cancel_tool(stage):
    return interrupting(stage, "Run a command that prints a line every two seconds. [[sleep]]",
                        lambda message: message["method"] == "item/commandExecution/outputDelta"
                        or (message["method"] == "serverRequest/resolved"))


def cancel_asked(stage):
    file = stage.work / "out.txt"
    file.unlink(missing_ok=True)
    said = interrupting(stage, "Run `echo hello-from-tool > out.txt; cat out.txt`. [[bash]]", lambda message: "id" in message)
    check(not file.exists(), "the command ran")
    return said


def model(stage):
    thread = stage.thread()
    told = {}

    def see(message):
        if message["method"] == "thread/models/updated":
            told.update(message["params"])
    stage.turn(thread, "Say a few words. [[text]]", act=see).completed()
    models = [one["id"] for one in told.get("data", [])]
    other = next((one for one in models if one != told.get("current")), None)
    if other is None:
        raise Skipped(f"one model only: {models}")
    stage.client.call("thread/settings/update", {"threadId": thread, "model": other})
    stage.client.wait(lambda message: message["method"] == "thread/settings/updated" and message["params"]["threadSettings"]["model"] == other)
    stage.turn(thread, "Say a few words. [[text]]").completed()
    return f"{told.get('current')} → {other}"


def mode(stage):
    """The policy yolo and back, which is another mode of the agent."""
    thread, file = stage.thread(), stage.work.parent / OUTSIDE
    prompt = f"Write a file {file} with two lines. [[outside]]"
    file.unlink(missing_ok=True)
    stage.turn(thread, "Say a few words. [[text]]").completed()
    yolo, ask = {"mode": "yolo", "sandbox": "danger_full_access"}, {"mode": "ask", "sandbox": "workspace_write"}
    stage.client.call("thread/settings/update", {"threadId": thread, "policy": yolo})
    turn = stage.turn(thread, prompt).completed()
    done = turn.of("commandExecution", "fileChange", "dynamicToolCall")
    check(done and not turn.asked, f"under yolo: asked {[request['method'] for request in turn.asked]}, did {turn.items}")
    file.unlink(missing_ok=True)
    stage.client.call("thread/settings/update", {"threadId": thread, "policy": ask})
    inside = f"Write two lines into {stage.work / 'notes.txt'}. [[write]]"
    asked = [stage.turn(thread, again, approve("decline")).asked for again in (prompt, inside)]
    check(not file.exists(), "it was written though it was declined")
    check(any(asked), "it did not ask again")


def edit(stage):
    """An edit inside the folder under the policy ask."""
    file = stage.work / "notes.txt"
    file.unlink(missing_ok=True)
    turn = stage.turn(stage.thread(), f"Write two lines into {file}. [[write]]", approve("decline"))
    if not turn.asked:
        raise Skipped(f"the agent edits inside its folder unasked; warned: {turn.warnings}")
    check(not file.exists(), "it was written though it was declined")
    return f"turn {turn.status}"


def two_tools(stage):
    turn = stage.turn(stage.thread(), "Run `echo one > one.txt` and `echo two > two.txt` at once. [[two]]", approve("accept")).completed()
    check((stage.work / "one.txt").exists() and (stage.work / "two.txt").exists(), "both ran")
    check(len(turn.of("commandExecution")) == 2, f"{[item['type'] for item in turn.items]}")


def failing_command(stage):
    turn = stage.turn(stage.thread(), "Run `echo oops >&2; exit 3`. [[bashfail]]", approve("accept")).completed()
    command = turn.of("commandExecution")[0]
    check(command["status"] in ("failed", "completed"), f"{command}")
    return f"{command['status']}, exit code {command.get('exitCode')}"


def subagent(stage):
    turn = stage.turn(stage.thread(), "Have a subagent say a few words. [[sub]]", approve("accept")).completed()
    return ", ".join(item["type"] for item in turn.items if item["type"] not in ("userMessage", "agentMessage", "reasoning"))


def model_error(stage):
    """The model's server refuses the request."""
    thread = stage.thread()
    turn = stage.turn(thread, "The model answers this with an error. [[err400]]")
    check(turn.status == "failed" or turn.text() or turn.warnings, f"nothing tells of it: {turn.status} {turn.items}")
    stage.turn(thread, "Say a few words. [[text]]").completed()
    return f"turn {turn.status}: {(turn.error or {}).get('message') or turn.text() or turn.warnings}"[:120]


def login_error(stage):
    """The model's server does not take the key. Some agents try again for minutes: then the user interrupts."""
    thread, begun = stage.thread(), time.monotonic()
    turn = stage.start(thread, "The model's server does not know you. [[err401]]")
    timer = threading.Timer(40, lambda: stage.client.send(
        {"id": "interrupt", "method": "turn/interrupt", "params": {"threadId": thread, "turnId": turn}}))
    timer.start()
    ended = stage.follow(thread, turn)
    timer.cancel()
    check(ended.status != "completed" or ended.text() or ended.warnings, f"nothing tells of it: {ended.items}")
    stage.turn(thread, "Say a few words. [[text]]").completed()
    told = (ended.error or {}).get("message") or ended.text() or ended.warnings or f"after {time.monotonic() - begun:.0f} s"
    return f"turn {ended.status}: {told}"[:120]


def restart(stage):
    thread = stage.thread()
    stage.turn(thread, "The password of the day is zinnober. Say a few words. [[text]]").completed()
    turn = stage.start(thread, "Count slowly to a hundred. [[slow]]")
    stage.client.wait(lambda message: message["method"] == "item/agentMessage/delta")
    os.kill(stage.server_pid(), signal.SIGKILL)
    ended = stage.follow(thread, turn)
    check(ended.status == "interrupted", f"the turn of the dead server is {ended.status}")
    ended = stage.turn(thread, "What is the password of the day? Say a few words. [[text]]").completed()
    lost = [warning for warning in ended.warnings if "no longer knows" in warning]
    given = [warning for warning in ended.warnings if "given to it as context" in warning]
    check(not lost or given, f"the conversation was lost: {lost}")
    if stage.dump:
        requests = [line for line in pathlib.Path(stage.dump).read_text().splitlines() if "What is the password" in line]
        check(requests and all("zinnober" in line for line in requests[:1]), "the model was not given what was said before")
        return "the model was given what was said before" + (", by us: the agent had lost it" if lost else "")


SCENES = {"text": text, "thinking": thinking, "approved shell": approved_shell, "declined shell": declined_shell,
          "edit inside": edit, "write outside": outside, "plan": plan, "question": question, "cancel in text": cancel_text,
          "cancel in a tool": cancel_tool, "cancel with an approval open": cancel_asked, "model": model, "mode": mode,
          "two tools at once": two_tools, "failing command": failing_command, "subagent": subagent,
          "error of the model": model_error, "key refused": login_error, "restart and resume": restart}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--signalbox", default="signalbox", help="the program")
    parser.add_argument("--agent", action="append", required=True, metavar="NAME=SPEC.json")
    parser.add_argument("--only", help="scenes, with commas between them")
    parser.add_argument("--work", help="the folder to work in, if a scripted model names files by their whole path")
    parser.add_argument("--model-dump", help="where the scripted model writes the requests it gets")
    options = parser.parse_args()
    binary = shutil.which(options.signalbox) or sys.exit(f"there is no {options.signalbox}")
    wanted = options.only.split(",") if options.only else list(SCENES)
    rows, failed = [], False
    for agent in options.agent:
        name, _, path = agent.partition("=")
        stage = Stage(binary, name, json.loads(pathlib.Path(path).read_text()), options.model_dump, options.work)
        for scene in wanted:
            begun = time.monotonic()
            try:
                if scene in ASKS and not stage.asks:
                    raise Skipped("the agent never asks")
                result = "holds" + (f" ({said})" if (said := SCENES[scene](stage)) else "")
            except Skipped as reason:
                result = f"skipped: {reason}"
            except Trouble as trouble:
                result, failed = f"FAILS: {trouble}", True
            rows.append((name, scene, result))
            print(f"{name:12} {scene:30} {time.monotonic() - begun:5.1f} s  {result}", flush=True)
        try:
            stage.close()
        except Trouble as trouble:
            failed = True
            print(f"{name:12} {'the end':30} FAILS: {trouble}", flush=True)
    print("\n| agent | scene | result |\n| --- | --- | --- |")
    for row in rows:
        print("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
