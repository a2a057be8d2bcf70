"""The official Python SDK against the binary: `sdk.py first|second|manages|decides|asynchronous BINARY WORK [THREAD]`.

Run by run.py, in an environment that has the SDK. Prints what it sees; what is wrong is an exception.
"""
import asyncio
import pathlib
import sys

from openai_codex import AsyncCodex, Codex, CodexConfig, InvalidRequestError, JsonRpcError
from openai_codex.client import CodexClient
from openai_codex.generated.notification_registry import NOTIFICATION_MODELS
from openai_codex.generated.v2_all import AgentMessageDeltaNotification, CommandExecutionThreadItem
from openai_codex.models import UnknownNotification


def config(binary, work):
    # The SDK puts each override before the subcommand, as `--config KEY=VALUE`.
    return CodexConfig(codex_bin=binary, cwd=work, config_overrides=('model_verbosity="low"',))


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def understood(event):
    """The SDK keeps a notification that it cannot read as an unknown one; none that it knows may be so."""
    unread = isinstance(event.payload, UnknownNotification) and event.method in NOTIFICATION_MODELS
    check(not unread, f"the SDK cannot read {event.method}: {event.payload}")


def commands(items):
    return [item.root for item in items if isinstance(item.root, CommandExecutionThreadItem)]


def first(binary, work):
    """Everything one process does: start, run, read, list, stream, steer, interrupt."""
    with Codex(config(binary, work)) as codex:
        server = codex.metadata.serverInfo
        print("server", server.name, server.version, "-", codex.metadata.userAgent)
        print("models", [model.id for model in codex.models().data])
        print("account", codex.account().account)
        thread = codex.thread_start(cwd=work)
        print("thread", thread.id)

        result = thread.run("think How do I begin?\nsay Hello from the rehearsal agent.\nusage 1200 100000")
        print("final response:", result.final_response)
        check(result.final_response == "Hello from the rehearsal agent.", "the final text arrives")
        check(result.status.value == "completed", result.status)
        check([item.root.type for item in result.items] == ["userMessage", "reasoning", "agentMessage"], result.items)
        check(result.usage is not None, "usage is told")
        print("usage:", result.usage.last.total_tokens, "of", result.usage.model_context_window)

        # The SDK's own callback accepts every command and change.
        result = thread.run("run git log --oneline\nwrite notes.txt <<END\nOne line.\nEND\nsay Done.")
        [command] = commands(result.items)
        print("command:", command.command, command.status.value, command.exit_code, repr(command.aggregated_output))
        check(command.exit_code == 0 and "The first commit" in command.aggregated_output, command)
        check((pathlib.Path(work) / "notes.txt").read_text() == "One line.\n", "the change was made")

        turn = thread.turn("stream 100000 20 1")
        deltas, interrupted = 0, False
        for event in turn.stream():
            understood(event)
            deltas += isinstance(event.payload, AgentMessageDeltaNotification)
            if deltas >= 20 and not interrupted:
                turn.interrupt()
                interrupted = True
            last = event
        print("interrupted after", deltas, "deltas:", last.payload.turn.status.value)
        check(last.payload.turn.status.value == "interrupted", last)

        read = thread.read(include_turns=True).thread
        print("read:", [(turn.status.value, len(turn.items)) for turn in read.turns])
        check([turn.status.value for turn in read.turns] == ["completed", "completed", "interrupted"], read.turns)
        listed = codex.thread_list(limit=10, cwd=work).data
        print("listed:", [(one.id == thread.id, one.preview) for one in listed])
        check([one.id for one in listed] == [thread.id], listed)

        try:
            turn.interrupt()
        except InvalidRequestError as error:
            print("a second interrupt:", error)
            check(error.message.startswith("no active turn to interrupt"), error)
        else:
            raise AssertionError("an interrupt without a turn is refused")
        try:
            codex.thread_start(cwd="/no/such/folder")
        except JsonRpcError as error:
            print("a folder that is none:", error)
        else:
            raise AssertionError("a folder that is none is refused")


def second(binary, work, thread_id):
    """Another process takes the thread up."""
    with Codex(config(binary, work)) as codex:
        thread = codex.thread_resume(thread_id)
        before = thread.read(include_turns=True).thread.turns
        check(before[0].items[2].root.text == "Hello from the rehearsal agent.", "the history is there")
        result = thread.run("say Resumed.")
        print("resumed with", len(before), "turns:", result.final_response)
        check(result.final_response == "Resumed.", result)
        check(len(thread.read(include_turns=True).thread.turns) == len(before) + 1, "the turn was added")


def manages(binary, work, thread_id):
    """Steer, fork, name, archive, search, compact: the rest of what the SDK does with threads."""
    with Codex(config(binary, work)) as codex:
        thread = codex.thread_resume(thread_id, include_turns=False)
        turns = len(thread.read(include_turns=True).thread.turns)

        turn = thread.turn("say Working.\nhang polite")
        steered, texts = False, []
        for event in turn.stream():
            understood(event)
            if isinstance(event.payload, AgentMessageDeltaNotification):
                texts.append(event.payload.delta)
                if not steered:
                    print("steered turn:", turn.steer("say Steered.").turn_id == turn.id)
                    steered = True
            last = event
        print("after the steer:", last.payload.turn.status.value, "".join(texts))
        check(last.payload.turn.status.value == "completed" and "".join(texts) == "Working.Steered.", texts)

        fork = codex.thread_fork(thread_id)
        copied = fork.read(include_turns=True).thread.turns
        print("forked:", fork.id != thread_id, "with", len(copied), "turns")
        check(fork.id != thread_id and len(copied) == turns + 1, copied)
        result = fork.run("say Only in the fork.")
        check(result.final_response == "Only in the fork.", result)
        check(len(thread.read(include_turns=True).thread.turns) == turns + 1, "the source stays as it is")

        fork.set_name("A fork of needles")
        found = codex.thread_list(search_term="needles").data
        print("found:", [(one.id == fork.id, one.name) for one in found])
        check([one.id for one in found] == [fork.id], found)
        check(codex.thread_list(search_term="no such words anywhere").data == [], "nothing else is found")

        codex.thread_archive(fork.id)
        here, there = codex.thread_list().data, codex.thread_list(archived=True).data
        print("archived:", fork.id not in [one.id for one in here], [one.id == fork.id for one in there])
        check(fork.id not in [one.id for one in here] and [one.id for one in there] == [fork.id], there)
        check(codex.thread_unarchive(fork.id).id == fork.id, "it comes back")
        check(fork.id in [one.id for one in codex.thread_list().data], "and is listed again")

        try:
            thread.compact()
        except JsonRpcError as error:
            print("compact:", error)
            check(error.data["reason"] == "unsupported_by_agent", error)
        else:
            raise AssertionError("an agent without a compact command is not asked to compact")
        check(thread.run("say Still here.").final_response == "Still here.", "the thread goes on")


def decides(binary, work):
    """A callback of one's own decides about commands."""
    asked = []

    def decide(method, params):
        asked.append((method, params["command"]))
        return {"decision": "decline" if "forbidden" in params["command"] else "accept"}

    with CodexClient(config(binary, work), approval_handler=decide) as client:
        client.initialize()
        thread = client.thread_start({"cwd": work, "approvalPolicy": "untrusted"}).thread.id
        for script, status, exists in (("run touch allowed", "completed", True), ("run touch forbidden", "declined", False)):
            turn = client.turn_start(thread, script).turn.id
            ended = client.wait_for_turn_completed(turn).turn
            check(ended.status.value == "completed", ended)
            turns = client.thread_read(thread, include_turns=True).thread.turns
            [command] = commands(turns[-1].items)
            print("callback:", asked[-1], "->", command.status.value)
            check(command.status.value == status, command)
            check((pathlib.Path(work) / script.split()[-1]).exists() == exists, script)
    check([method for method, _ in asked] == ["item/commandExecution/requestApproval"] * 2, asked)


def asynchronous(binary, work):
    """The SDK's asynchronous face, two turns at once."""
    async def both():
        async with AsyncCodex(config(binary, work)) as codex:
            threads = [await codex.thread_start(cwd=work) for _ in range(2)]
            return await asyncio.gather(*(thread.run(f"say Number {n}.") for n, thread in enumerate(threads)))

    results = asyncio.run(both())
    print("at once:", [result.final_response for result in results])
    check([result.final_response for result in results] == ["Number 0.", "Number 1."], results)


if __name__ == "__main__":
    {"first": first, "second": second, "manages": manages, "decides": decides, "asynchronous": asynchronous}[sys.argv[1]](*sys.argv[2:])
