#!/usr/bin/env python3
"""Runs the clients that are not written in Rust against the real binary.

    python3 tests/clients/run.py [BINARY]

The binary is the argument, else $SIGNALBOX_BIN, else the debug build of this workspace. Every client gets a home and a
working folder of its own and a bounded time. What is not in this repository comes from PyPI and npm, in pinned versions,
into folders under the build folder; if it cannot be installed, that is a failure.
"""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
SDK = "openai-codex==0.163.0"
# The SDK also wants a package of 140 MB with the program that ours stands in for; so it is installed by itself, and these
# are the others it names.
SDK_NEEDS = ["pydantic>=2.12", "packaging>=26.2"]
WEBSOCKETS = "websockets==15.0.1"
VSCODE_JSONRPC = "vscode-jsonrpc@8.2.1"
PATIENCE_S = 120


class Failure(Exception):
    """A client did not do what it should."""


def binary():
    named = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("SIGNALBOX_BIN", BUILD / "debug" / "signalbox")
    path = pathlib.Path(named).resolve()
    if not path.is_file():
        raise Failure(f"there is no {path}; build it with `cargo build -p signalbox`")
    return path


def run(command, env=None, stdin=None, expect=0):
    """Runs a command in a process group of its own, prints what it prints, and gives that back."""
    print("$", " ".join(str(part) for part in command), flush=True)
    process = subprocess.Popen([str(part) for part in command], stdin=stdin or subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, env=env, start_new_session=True)
    try:
        output, _ = process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        print(output)
        raise Failure(f"not done after {PATIENCE_S} s") from None
    print(output, end="", flush=True)
    if process.returncode != expect:
        raise Failure(f"exit code {process.returncode} instead of {expect}")
    return output


def world():
    """A home and a working folder with a git repository, and the environment for it."""
    root = pathlib.Path(tempfile.mkdtemp(prefix="signalbox-clients-"))
    home, work = root / "home", root / "work"
    home.mkdir()
    work.mkdir()
    (work / "README.md").write_text("# A small project\n")
    env = {"PATH": os.environ["PATH"], "HOME": str(root), "SIGNALBOX_HOME": str(home), "PYTHONUNBUFFERED": "1",
           "GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.org",
           "GIT_COMMITTER_NAME": "Ada", "GIT_COMMITTER_EMAIL": "ada@example.org"}
    for arguments in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "The first commit"]):
        subprocess.run(["git", *arguments], cwd=work, env=env, check=True)
    return root, work, env


def check(condition, what):
    if not condition:
        raise Failure(what)


def example(server):
    """examples/python-stdio, the client on the standard library alone."""
    root, work, env = world()
    client = [sys.executable, ROOT / "examples" / "python-stdio" / "client.py", "--binary", server, "--cwd", work]
    try:
        said = run([*client, "--approve", "accept", "Look around."], env)
        check("The first commit" in said, "the approved command ran and its output was streamed")
        check((work / "REHEARSAL-NOTE.md").is_file(), "the approved file was written")
        check("+" in said and "REHEARSAL-NOTE.md" in said, "the diff was shown")
        said = run([*client, "--approve", "decline", "run touch declined\nsay It goes on."], env)
        check(not (work / "declined").exists(), "the declined command did not run")
        check("It goes on." in said, "the turn went on after the decline")
        run([*client, "--approve", "cancel", "run touch cancelled\nsay Never."], env, expect=1)
        check(not (work / "cancelled").exists(), "the cancelled command did not run")
        said = run([*client, "fail Out of coal"], env, expect=1)
        check("Out of coal" in said, "the failure of the agent was shown")
        said = run([*client, "--provider", "nobody", "Hello"], env, expect=2)
        check("nobody" in said, "the refusal was shown")
    finally:
        run([server, "stop", "--force"], env)
        shutil.rmtree(root)


def sdk_python():
    """An environment with the SDK; made once, and again when it is not as it should be."""
    folder = BUILD / "clients" / "sdk"
    python = folder / "bin" / "python"
    wanted = SDK.split("==")[1]
    probe = [str(python), "-c", "import openai_codex as sdk; print(sdk.__version__)"]
    if python.exists():
        found = subprocess.run(probe, capture_output=True, text=True)
        if found.stdout.strip() == wanted:
            return python
    venv.create(folder, clear=True, with_pip=True)
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    for packages in (SDK_NEEDS, ["--no-deps", SDK]):
        try:
            run([*pip, *packages])
        except Failure as failure:
            raise Failure(f"the SDK cannot be installed from PyPI: {failure}") from None
    return python


def sdk(server):
    """openai-codex, the official Python SDK."""
    python, script = sdk_python(), pathlib.Path(__file__).with_name("sdk.py")
    root, work, env = world()
    try:
        said = run([python, script, "first", server, work], env)
        thread = next(line.split()[-1] for line in said.splitlines() if line.startswith("thread "))
        run([python, script, "second", server, work, thread], env)
        run([python, script, "manages", server, work, thread], env)
        run([python, script, "decides", server, work], env)
        run([python, script, "asynchronous", server, work], env)
        holder = (root / "home" / "lock").read_text()
        check('role = "server"' in holder, f"one server of the home has served all of them: {holder!r}")
    finally:
        # It outlives its clients on purpose.
        run([server, "stop"], env)
        shutil.rmtree(root)


@contextlib.contextmanager
def listening(server, env, work):
    """A server on a port of this machine that the system chooses; gives host and port."""
    command = [server, "app-server", "--standalone", "--listen", "ws://127.0.0.1:0"]
    process = subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True, env=env, cwd=work, start_new_session=True)
    said = []
    found = threading.Event()

    def read():
        for line in process.stderr:
            said.append(line)
            found.set()
        found.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        match, deadline = None, time.monotonic() + PATIENCE_S
        while match is None:
            check(found.wait(max(0, deadline - time.monotonic())), "the server does not listen")
            found.clear()
            match = re.search(r"ws://(127\.0\.0\.1):(\d+)", "".join(said))
            check(match or process.poll() is None, "the server did not start: " + "".join(said))
        yield match.groups()
    finally:
        process.terminate()
        try:
            code = process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise Failure("the server does not end") from None
    reader.join(PATIENCE_S)
    print("".join(said), end="")
    check(code == 0, f"the server ended with {code}")


def pip(folder, package, probe):
    """An environment with one package; made once, and again when it is not as it should be."""
    python = folder / "bin" / "python"
    if not python.exists() or subprocess.run([python, "-c", probe], capture_output=True).returncode != 0:
        venv.create(folder, clear=True, with_pip=True)
        try:
            run([python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", package])
        except Failure as failure:
            raise Failure(f"{package} cannot be installed from PyPI: {failure}") from None
    return python


def websockets(server):
    """websockets, the Python library, over TCP."""
    version = WEBSOCKETS.split("==")[1]
    probe = f"import websockets; assert websockets.__version__ == {version!r}"
    python = pip(BUILD / "clients" / "websockets", WEBSOCKETS, probe)
    root, work, env = world()
    try:
        with listening(server, env, work) as (host, port):
            run([python, pathlib.Path(__file__).with_name("ws.py"), f"ws://{host}:{port}/rpc", work], env)
    finally:
        shutil.rmtree(root)


def frames(server):
    """WebSocket frames made by hand."""
    root, work, env = world()
    try:
        with listening(server, env, work) as (host, port):
            run([sys.executable, pathlib.Path(__file__).with_name("frames.py"), host, port, work], env)
    finally:
        shutil.rmtree(root)


def vscode_jsonrpc(server):
    """vscode-jsonrpc, the library of language clients, over stdio."""
    folder = BUILD / "clients" / "vscode-jsonrpc"
    package = folder / "node_modules" / "vscode-jsonrpc" / "package.json"
    wanted = VSCODE_JSONRPC.split("@")[1]
    if not package.exists() or json.loads(package.read_text())["version"] != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            run(["npm", "install", "--prefix", folder, "--no-save", "--no-audit", "--no-fund", "--silent", VSCODE_JSONRPC])
        except (Failure, FileNotFoundError) as failure:
            raise Failure(f"{VSCODE_JSONRPC} cannot be installed from npm: {failure}") from None
    root, work, env = world()
    env["NODE_PATH"] = str(folder / "node_modules")
    try:
        run(["node", pathlib.Path(__file__).with_name("lsp.js"), server, work], env)
    finally:
        shutil.rmtree(root)


def main():
    try:
        server = binary()
        for client in (example, sdk, websockets, frames, vscode_jsonrpc):
            print(f"\n--- {client.__doc__}", flush=True)
            begun = time.monotonic()
            client(server)
            print(f"--- passed in {time.monotonic() - begun:.1f} s", flush=True)
    except Failure as failure:
        print(f"FAILED: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
