"""`headrace status --watch` as a person uses it, on a real terminal beside a real store."""

from __future__ import annotations

import asyncio
import re
import shutil
import signal
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from headrace import JobStatus
from headrace.admin import QueueInfo
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Batch, Message, Stream
from tests.integration.support.terminal import environment, on_terminal
from tests.integration.support.worker_processes import ROOT, Workshop
from tests.support.routers import open_router

#: What is sent when the terminal is given back: the cursor, and the shell's own screen.
GIVEN_BACK = "\x1b[?25h\x1b[?1049l"

#: What no name may bring to it: an operating system command, a bell, C1, a text turned around.
STEERING = re.compile("\x1b\\]|[\x07\x80-\x9f\u202a-\u202e]")


async def queue_of(workshop: Workshop, name: str = "default") -> QueueInfo:
    [queue] = [queue for queue in await workshop.app.admin.queues() if queue.name == name]
    return queue


async def bury(workshop: Workshop, count: int) -> None:
    """So many dead letters in the queue `default`."""
    worker = await workshop.start_ready()
    for number in range(count):
        job = await workshop.app.remote("quick").enqueue(f"no number: {number}")
        assert await job.wait(timeout=20) is JobStatus.DEAD
    worker.send(signal.SIGTERM)
    assert worker.exit_code() == 0


async def test_a_queue_is_paused_and_its_dead_letters_are_replayed(workshop: Workshop) -> None:
    await bury(workshop, 3)
    with on_terminal(workshop, "status", "--watch", "--url", workshop.url) as screen:
        before = screen.attributes
        await screen.shows("! 3 dead in default")
        await screen.shows("▸ default")
        assert screen.attributes != before
        screen.type("p")
        await screen.shows("default is paused; p resumes it")
        assert (await queue_of(workshop)).paused

        screen.type("r")
        await screen.shows("Replay 3 dead letters of default?")
        assert (await queue_of(workshop)).dead == 3
        screen.type("y")
        await screen.shows("3 dead letters of default replayed")
        queue = await queue_of(workshop)
        assert (queue.queued, queue.dead) == (3, 0)
        await screen.shows("default is paused with 3 jobs waiting")

        screen.type("p")
        await screen.shows("default is resumed")
        assert not (await queue_of(workshop)).paused
        screen.type("q")
        assert screen.exit_code() == 0
        assert screen.attributes == before
        assert screen.raw.endswith(GIVEN_BACK)


async def test_no_name_in_the_store_steers_the_terminal(workshop: Workshop) -> None:
    evil = "evil\x1b]0;title\x07\x9b2J\u202e"
    store = open_router(workshop.url)
    await store.open()
    await store.append(Batch(Stream("queue", evil), "p", 1, [Message(new_id(), evil, b"")]))
    await store.close()
    with on_terminal(workshop, "status", "--watch", "--url", workshop.url, size=(120, 30)) as screen:
        await screen.shows(r"▸ evil\x1b]0;title\x07\x9b2J\u202e")
        screen.type("p")
        await screen.shows("is not allowed")
        screen.type("q")
        assert screen.exit_code() == 0
    assert STEERING.findall(screen.raw) == []


async def test_it_follows_the_store_and_the_size_of_the_terminal(workshop: Workshop) -> None:
    await workshop.app.admin.queues()
    with on_terminal(workshop, "status", "--watch", "--url", workshop.url, size=(120, 30)) as screen:
        await screen.shows("no queue and no topic has been used yet")
        await workshop.task("quick").with_(queue="fresh").enqueue(1)
        await screen.shows("scheduled")
        await screen.shows("▸ fresh")
        screen.resize(60, 10)
        await screen.shows("queue  wait  run")
        screen.type("\x1b")
        assert screen.exit_code() == 0


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
async def test_a_signal_ends_it_with_the_terminal_given_back(
    workshop: Workshop, number: signal.Signals, code: int
) -> None:
    await workshop.app.admin.queues()
    with on_terminal(workshop, "status", "--watch", "--url", workshop.url) as screen:
        before = screen.attributes
        await screen.shows("q quit")
        screen.process.send_signal(number)
        assert screen.exit_code() == code
        assert screen.attributes == before
        assert screen.raw.endswith(GIVEN_BACK)


async def test_ctrl_c_as_a_key_ends_it(workshop: Workshop) -> None:
    await workshop.app.admin.queues()
    with on_terminal(workshop, "status", "--watch", "--url", workshop.url) as screen:
        await screen.shows("q quit")
        screen.type("\x03")
        assert screen.exit_code() == 0


@pytest.mark.skipif(shutil.which("bash") is None, reason="a shell with job control is needed")
async def test_ctrl_z_gives_the_terminal_to_the_shell_and_fg_takes_it_again(workshop: Workshop) -> None:
    await workshop.app.admin.queues()
    shell = ["env", "PS1=what next? ", "bash", "--norc", "--noprofile", "-i"]
    with on_terminal(workshop, command=shell) as screen:
        await screen.shows("what next?")
        screen.type(f"{sys.executable} -m headrace status --watch --url {workshop.url}\n")
        await screen.shows("q quit")
        screen.type("\x1a")
        await screen.shows("Stopped")
        await screen.shows("what next?")
        assert screen.raw.count("\x1b[?1049l") == 1
        screen.type("fg\n")
        await screen.shows("q quit")
        assert screen.raw.count("\x1b[?1049h") >= 2
        screen.type("q")
        await screen.shows("what next?")
        screen.type("echo ended with $?, well\n")
        await screen.shows("ended with 0, well")
        screen.type("exit\n")
        assert screen.exit_code() == 0


async def test_into_a_pipe_go_plain_lines_until_ctrl_c(workshop: Workshop) -> None:
    await workshop.task("quick").enqueue(1)
    blocks = await piped(workshop, 2, b"! default has 1 job waiting and no worker")
    assert "\x1b" not in blocks
    assert blocks.count("queue    queued  running") == 2


async def test_into_a_program_goes_a_document_a_line(workshop: Workshop) -> None:
    await workshop.task("quick").enqueue(1)
    lines = await piped(workshop, 3, b"{", "--json")
    documents: list[Any] = [msgspec.json.decode(line) for line in lines.splitlines()]
    assert [document["queues"][0]["queued"] for document in documents] == [1, 1, 1]


async def piped(workshop: Workshop, count: int, mark: bytes, *words: str) -> str:
    """What is written up to the line that is the `count`th to begin with the mark; ended as by Ctrl-C."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "headrace", "status", "--watch", "--interval", "100ms", *words),
        *("--url", workshop.url),
        cwd=ROOT,
        env=environment(workshop),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    written = b""
    seen = 0
    try:
        async with asyncio.timeout(20):
            while seen < count:
                line = await process.stdout.readline()
                assert line, written
                seen += line.startswith(mark)
                written += line
            process.send_signal(signal.SIGINT)
            await process.stdout.read()
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return written.decode()
