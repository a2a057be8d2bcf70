#!/usr/bin/env python3
"""One turn through signalbox, over stdio, on the standard library alone.

Starts `signalbox app-server`, speaks JSON-RPC in lines with it, streams what
the agent says and what its commands print, answers approvals and prints the diff. Exit code 0: the turn
completed; 1: it failed or was interrupted; 2: there was none.
"""
import argparse
import itertools
import json
import os
import signal
import subprocess
import sys


class ServerError(Exception):
    """The server answered a request with an error, or is gone."""


class Client:
    def __init__(self, binary, approve):
        command = [binary, "app-server"]
        # In a session of its own Ctrl-C does not reach the server; it interrupts the turn instead.
        self.server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       encoding="utf-8", start_new_session=True)
        self.approve, self.ids = approve, itertools.count(1)
        self.items, self.ended, self.diff = {}, {}, ""  # items and completed turns by id; the latest diff
        self.thread = self.turn = None
        self.asking = self.mid_line = False

    def send(self, message):
        try:
            self.server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            self.server.stdin.flush()
        except BrokenPipeError:
            raise ServerError("the server is gone") from None

    def receive(self):
        """The next message. What the server tells or asks is dealt with on the way in."""
        line = self.server.stdout.readline()
        if not line:
            raise ServerError(f"the server ended with code {self.server.wait()}")
        message = json.loads(line)
        if "method" in message:
            handle = self.answer if "id" in message else self.notice
            handle(message, message.get("params") or {})
        return message

    def call(self, method, params):
        number = next(self.ids)
        self.send({"id": number, "method": method, "params": params})
        while True:
            message = self.receive()
            if "method" not in message and message.get("id") == number:
                if "error" in message:
                    raise ServerError(f"{method}: {message['error']['message']}")
                return message["result"]

    def notice(self, message, params):
        method, item = message["method"], params.get("item") or {}
        if method in ("item/agentMessage/delta", "item/commandExecution/outputDelta"):
            self.show(params["delta"])
        elif method in ("item/started", "item/completed"):
            self.items[item["id"]] = item
            if item["type"] == "commandExecution":
                code = item.get("exitCode")
                ended = f"[{item['status']}]" if code is None else f"[exit code {code}]"
                self.line(f"$ {item['command']}" if method == "item/started" else ended)
            elif item["type"] == "agentMessage" and method == "item/completed":
                self.line()
        elif method == "item/fileChange/patchUpdated":
            self.items[params["itemId"]] = params
        elif method == "turn/diff/updated":
            self.diff = params["diff"]
        elif method == "turn/completed":
            self.ended[params["turn"]["id"]] = params["turn"]
        elif method == "warning":
            print(f"warning: {params['message']}", file=sys.stderr)

    def answer(self, message, params):
        """Every request of the server gets one answer, the unknown ones an error."""
        method, reply = message["method"], {"id": message["id"]}
        if method == "item/commandExecution/requestApproval":
            reply["result"] = {"decision": self.decide(f"Run `{params.get('command')}`?")}
        elif method == "item/fileChange/requestApproval":
            for change in self.items.get(params["itemId"], {}).get("changes", []):
                self.line(f"{change['kind']['type']} {change['path']}\n{change['diff'].rstrip()}")
            reply["result"] = {"decision": self.decide("Make this change?")}
        elif method == "item/tool/requestUserInput":  # no answers: declined
            reply["result"] = {"answers": {q["id"]: {"answers": []} for q in params["questions"]}}
        elif method == "mcpServer/elicitation/request":
            reply["result"] = {"action": "decline"}
        else:
            reply["error"] = {"code": -32601, "message": f"method not found: {method}"}
        self.send(reply)

    def decide(self, question):
        """`accept`, `decline`, or `cancel`, which declines and interrupts the turn."""
        if self.approve or not sys.stdin.isatty():
            decision = self.approve or "decline"
            self.line(f"{question} {decision}")
            return decision
        self.line()
        try:
            self.asking = True
            return "accept" if input(f"{question} [y/N] ").strip().lower() in ("y", "yes") else "decline"
        except EOFError:
            return "decline"
        except KeyboardInterrupt:
            return "cancel"
        finally:
            self.asking = False

    def show(self, text):
        print(text, end="", flush=True)
        self.mid_line = not text.endswith("\n") if text else self.mid_line

    def line(self, text=None):
        """Ends the line that is being written, and shows the text on lines of its own."""
        self.show(("\n" if self.mid_line else "") + (f"{text}\n" if text else ""))

    def interrupt(self, *_):
        """Ctrl-C: the first one interrupts the turn, which then ends in its own time."""
        if self.asking or self.turn is None:
            raise KeyboardInterrupt
        turn, self.turn = self.turn, None
        self.send({"id": next(self.ids), "method": "turn/interrupt",
                   "params": {"threadId": self.thread, "turnId": turn}})

    def run(self, prompt, cwd, provider):
        client = {"name": "python-stdio-example", "title": "Python example", "version": "1.0.0"}
        self.call("initialize", {"clientInfo": client})
        self.send({"method": "initialized"})
        started = self.call("thread/start", {"cwd": cwd, "modelProvider": provider})
        self.thread = started["thread"]["id"]
        text = [{"type": "text", "text": prompt}]
        turn = self.call("turn/start", {"threadId": self.thread, "input": text})["turn"]["id"]
        self.turn = turn
        while turn not in self.ended:
            self.receive()
        ended = self.ended[turn]
        self.line(self.diff.rstrip())
        error = (ended.get("error") or {}).get("message")
        print(f"turn {ended['status']}" + (f": {error}" if error else ""), file=sys.stderr)
        return 0 if ended["status"] == "completed" else 1

    def close(self):
        """The server leaves when its stdin ends."""
        try:
            self.server.stdin.close()
        except BrokenPipeError:
            pass
        try:
            self.server.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.server.kill()


def main():
    parser = argparse.ArgumentParser(description="Run one turn through signalbox.")
    parser.add_argument("prompt")
    parser.add_argument("--binary", default=os.environ.get("SIGNALBOX_BIN", "signalbox"))
    parser.add_argument("--cwd", default=".", help="the folder the agent works in")
    parser.add_argument("--provider", help="the agent; without it the configured one")
    parser.add_argument("--approve", choices=("accept", "decline", "cancel"), help="answer every approval so")
    options = parser.parse_args()
    client = None
    try:
        client = Client(options.binary, options.approve)
        signal.signal(signal.SIGINT, client.interrupt)
        return client.run(options.prompt, os.path.abspath(options.cwd), options.provider)
    except (OSError, ServerError) as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    finally:
        if client:
            client.close()


if __name__ == "__main__":
    sys.exit(main())
