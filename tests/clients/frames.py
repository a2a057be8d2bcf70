"""WebSocket frames made by hand, on the standard library alone: `frames.py HOST PORT WORK`.

What tools such as websocat send, and what no library would: messages in pieces, pings between them, frames that a
client must not send. Prints what it sees; what is wrong is an exception.
"""
import base64
import hashlib
import json
import os
import socket
import struct
import sys

TEXT, CLOSE, PING, PONG, FINAL = 0x1, 0x8, 0x9, 0xA, 0x80


def check(condition, what):
    if not condition:
        raise AssertionError(what)


class Frames:
    def __init__(self, host, port):
        self.socket = socket.create_connection((host, int(port)), timeout=60)
        self.stream = self.socket.makefile("rb")
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall((f"GET / HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"
                             f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n").encode())
        status = self.stream.readline().decode()
        check(" 101 " in status, status)
        headers = dict(line.split(": ", 1) for line in iter(lambda: self.stream.readline().decode().strip(), ""))
        accept = base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
        check({name.lower(): value for name, value in headers.items()}["sec-websocket-accept"] == accept, headers)

    def send(self, first, payload, masked=True):
        mask = os.urandom(4)
        length = len(payload)
        bit = 0x80 if masked else 0
        if length < 126:
            head = struct.pack("!BB", first, bit | length)
        elif length < 0x10000:
            head = struct.pack("!BBH", first, bit | 126, length)
        else:
            head = struct.pack("!BBQ", first, bit | 127, length)
        if masked:
            head += mask
            payload = bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))
        self.socket.sendall(head + payload)

    def receive(self):
        """One frame: its first byte and its payload. None at the end."""
        head = self.stream.read(2)
        if len(head) < 2:
            return None
        check(not head[1] & 0x80, "a server does not mask")
        length = head[1]
        if length == 126:
            [length] = struct.unpack("!H", self.stream.read(2))
        elif length == 127:
            [length] = struct.unpack("!Q", self.stream.read(8))
        return head[0], self.stream.read(length)

    def message(self):
        """The next text message as JSON, whatever control frames come between its pieces."""
        text = b""
        while True:
            first, payload = self.receive()
            if first & 0x0F == CLOSE:
                raise AssertionError(f"closed: {payload}")
            if first & 0x0F == PING:
                self.send(FINAL | PONG, payload)
            elif first & 0x0F != PONG:
                text += payload
                if first & FINAL:
                    return json.loads(text)

    def closed_with(self):
        while True:
            first, payload = self.receive()
            if first & 0x0F == CLOSE:
                return struct.unpack("!H", payload[:2])[0], payload[2:].decode()


def main(host, port, work):
    frames = Frames(host, port)
    calls = [
        {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "frames", "version": "1"}}},
        {"id": 2, "method": "thread/start", "params": {"cwd": work}},
    ]
    for call in calls:
        text = json.dumps(call).encode()
        pieces = [text[at:at + 9] for at in range(0, len(text), 9)]
        for at, piece in enumerate(pieces):
            last = FINAL if at == len(pieces) - 1 else 0
            frames.send((TEXT if at == 0 else 0) | last, piece)
            if not last:
                frames.send(FINAL | PING, b"between")
    while (answer := frames.message()).get("id") != 2:
        pass
    thread = answer["result"]["thread"]["id"]
    turn = {"threadId": thread, "input": [{"type": "text", "text": "run git log --oneline\nsay Done."}]}
    frames.send(FINAL | TEXT, json.dumps({"id": 3, "method": "turn/start", "params": turn}).encode())
    output = ""
    while True:
        message = frames.message()
        method, params = message.get("method"), message.get("params")
        if method == "item/commandExecution/requestApproval":
            print("asked:", params["command"])
            frames.send(FINAL | TEXT, json.dumps({"id": message["id"], "result": {"decision": "accept"}}).encode())
        elif method == "item/commandExecution/outputDelta":
            output += params["delta"]
        elif method == "turn/completed":
            break
    print("turn:", params["turn"]["status"], repr(output))
    check(params["turn"]["status"] == "completed" and "The first commit" in output, params)
    frames.send(FINAL | CLOSE, struct.pack("!H", 1000))
    check(frames.closed_with()[0] == 1000, "the goodbye is answered")
    check(frames.receive() is None, "and then the connection ends")

    for name, first, payload, masked, code in (
        ("unmasked", FINAL | TEXT, b"{}", False, 1002),
        ("binary", FINAL | 0x2, b"{}", True, 1003),
        ("no UTF-8", FINAL | TEXT, b"\xff", True, 1007),
        ("reserved bits", FINAL | TEXT | 0x40, b"{}", True, 1002),
    ):
        frames = Frames(host, port)
        frames.send(first, payload, masked)
        found = frames.closed_with()
        print(f"{name}:", *found)
        check(found[0] == code, (name, found))
    frames = Frames(host, port)
    # It is enough to say that so much will come.
    frames.socket.sendall(struct.pack("!BBQ", FINAL | TEXT, 0x80 | 127, 1 << 40) + b"mask")
    found = frames.closed_with()
    print("too large:", *found)
    check(found[0] == 1009, found)


main(*sys.argv[1:])
