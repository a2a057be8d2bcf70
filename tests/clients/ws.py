"""Python's `websockets` against the binary: `ws.py URL WORK`.

Run by run.py, in an environment that has the library. Prints what it sees; what is wrong is an exception.
"""
import asyncio
import json
import pathlib
import sys

import websockets
from websockets.asyncio.client import connect


def check(condition, what):
    if not condition:
        raise AssertionError(what)


class Client:
    def __init__(self, socket):
        self.socket, self.next_id, self.told = socket, 0, []

    async def receive(self):
        text = await asyncio.wait_for(self.socket.recv(), 60)
        check(isinstance(text, str), "frames are text messages")
        return json.loads(text)

    async def send(self, message):
        await self.socket.send(json.dumps({"jsonrpc": "2.0", **message}))

    async def call(self, method, params):
        self.next_id += 1
        await self.send({"id": self.next_id, "method": method, "params": params})
        while True:
            message = await self.receive()
            if "method" not in message and message["id"] == self.next_id:
                check("error" not in message, message)
                return message["result"]
            self.told.append(message)

    async def turn(self, thread, script, decision):
        """Runs a turn, answers what is asked in it, and gives its end and all that was told."""
        self.told = []
        await self.call("turn/start", {"threadId": thread, "input": [{"type": "text", "text": script}]})
        asked, seen = [], []
        while True:
            message = self.told.pop(0) if self.told else await self.receive()
            seen.append(message)
            if message.get("method") == "item/commandExecution/requestApproval":
                asked.append(message["params"]["command"])
                await self.send({"id": message["id"], "result": {"decision": decision}})
            if message.get("method") == "turn/completed":
                return message["params"]["turn"], asked, seen


async def main(url, work):
    async with connect(url, max_size=None) as socket:
        client = Client(socket)
        info = {"name": "websockets", "version": websockets.__version__}
        result = await client.call("initialize", {"clientInfo": info})
        print("server", result["serverInfo"], "role", result["role"])
        thread = (await client.call("thread/start", {"cwd": work}))["thread"]["id"]

        turn, asked, seen = await client.turn(thread, "run git log --oneline\nsay Done.", "accept")
        print("accepted:", asked, turn["status"])
        check(turn["status"] == "completed" and asked == ["git log --oneline"], (turn, asked))
        items = [one["params"]["item"] for one in seen if one.get("method") == "item/completed"]
        [command] = [item for item in items if item["type"] == "commandExecution"]
        check(command["exitCode"] == 0 and "The first commit" in command["aggregatedOutput"], command)

        turn, asked, _ = await client.turn(thread, "run touch declined\nsay It goes on.", "decline")
        print("declined:", asked, turn["status"])
        check(turn["status"] == "completed" and asked == ["touch declined"], (turn, asked))
        check(not (pathlib.Path(work) / "declined").exists(), "the declined command did not run")

        # Larger than any piece in which messages are sent.
        turn, _, seen = await client.turn(thread, "say " + "x" * 300_000, "decline")
        texts = [one["params"]["item"].get("text") for one in seen if one.get("method") == "item/completed"]
        check("x" * 300_000 in texts, "a large message arrives whole")
        await asyncio.wait_for(await socket.ping(), 60)

    async with connect(url) as socket:
        await socket.send(b"{}")
        try:
            await asyncio.wait_for(socket.recv(), 60)
        except websockets.ConnectionClosed as closed:
            print("binary:", closed.rcvd)
            check(closed.rcvd.code == 1003, closed)
        else:
            raise AssertionError("a binary message ends the connection")


asyncio.run(main(*sys.argv[1:]))
