"""Real commands beside a real worker process, and on a real terminal."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from headrace import JobStatus
from tests.waiting import wait_until

from .shop import LOG, STORE
from .workshop import ROOT, Workshop

APP = "tests.integration.shop:app"


class Answer(msgspec.Struct):
    """What a command said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.code == 0, self.err
        return msgspec.json.decode(self.out)


def environment(workshop: Workshop) -> dict[str, str]:
    return {**os.environ, STORE: workshop.url, LOG: str(workshop.log.path), "TERM": "xterm"}


async def headrace(workshop: Workshop, *words: str) -> Answer:
    """Run a command in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "headrace", *words),
        cwd=ROOT,
        env=environment(workshop),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return Answer(process.returncode, out.decode(), err.decode())


class Screen:
    """A command on a terminal, and what stands there."""

    def __init__(self, process: subprocess.Popen[bytes], terminal: int) -> None:
        self.process = process
        self.text = ""
        self._terminal = terminal
        os.set_blocking(terminal, False)

    def type(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    async def shows(self, text: str) -> None:
        """Wait until the text has appeared since the last one."""
        await wait_until(lambda: text in self._read(), timeout=20, message=f"{text!r} on the screen")
        self.text = self.text.partition(text)[2]

    def exit_code(self) -> int:
        return self.process.wait(20)

    def _read(self) -> str:
        try:
            while data := os.read(self._terminal, 65536):
                self.text += data.decode(errors="replace")
        except OSError:
            pass  # nothing more for now, or the command has ended
        return self.text


@contextmanager
def on_terminal(workshop: Workshop, *words: str) -> Iterator[Screen]:
    ours, its = pty.openpty()
    command = [sys.executable, "-m", "headrace", *words]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment(workshop),
        stdin=its,
        stdout=its,
        stderr=its,
        start_new_session=True,
    )
    os.close(its)
    try:
        yield Screen(process, ours)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(10)
        os.close(ours)


async def test_a_job_is_enqueued_run_by_the_worker_and_its_result_printed(workshop: Workshop) -> None:
    await workshop.start_ready()
    answer = await headrace(workshop, "enqueue", APP, "quick", "[42]", "--wait", "--timeout", "20")
    assert (answer.code, answer.out.splitlines()[1]) == (0, "42"), answer.err


async def test_what_a_worker_runs_is_seen_and_can_be_cancelled(workshop: Workshop) -> None:
    worker = await workshop.start_ready()
    job = await workshop.task("nap").enqueue(3600.0)
    await workshop.until(lambda: workshop.log.lines("started", id=job.id))

    async def seen() -> list[Any]:
        [info] = (await headrace(workshop, "workers", APP, "--json")).json
        assert info["pid"] == worker.pid
        return list(info["running"])

    await workshop.until(seen)
    status = (await headrace(workshop, "status", "--url", workshop.url, "--json")).json
    assert [(queue["name"], queue["running"]) for queue in status["queues"]] == [("default", 1)]
    listed = (await headrace(workshop, "jobs", APP, "--state", "running", "--json")).json
    assert [(info["id"], info["task"]) for info in listed] == [(job.id, "nap")]

    answer = await headrace(workshop, "cancel", APP, job.id)
    assert (answer.code, "is told to stop it" in answer.out) == (0, True)
    assert await job.wait(timeout=20) is JobStatus.CANCELLED


async def test_a_paused_queue_stands_still_for_the_worker_until_it_is_resumed(workshop: Workshop) -> None:
    assert (await headrace(workshop, "pause", APP, "default")).code == 0
    await workshop.start_ready()
    job = await workshop.task("quick").enqueue(1)
    shown = await headrace(workshop, "status", APP)
    assert "paused" in shown.out
    assert await job.status() is JobStatus.QUEUED
    assert (await headrace(workshop, "resume", APP, "default")).code == 0
    assert await job.result(timeout=20) == 1


async def test_a_scheduled_job_is_run_now(workshop: Workshop) -> None:
    await workshop.start_ready()
    job = await workshop.task("quick").with_(delay=3600).enqueue(7)
    assert (await headrace(workshop, "retry", APP, job.id)).code == 0
    assert await job.result(timeout=20) == 7


async def test_dead_letters_are_replayed_by_a_person_who_is_asked(workshop: Workshop) -> None:
    await workshop.start_ready()
    job = await workshop.task("quick").enqueue("no number")
    assert await job.wait(timeout=20) is JobStatus.DEAD
    [letter] = (await headrace(workshop, "dead", APP, "--json")).json
    assert (letter["id"], letter["reason"]) == (job.id, "invalid")
    await workshop.app.admin.edit(job.id, args=(5,))

    with on_terminal(workshop, "dead", "replay", APP, "--all") as screen:
        await screen.shows("Replay 1 dead letter?")
        screen.type("y\n")
        await screen.shows("1 dead letter replayed")
        assert screen.exit_code() == 0
    assert await job.result(timeout=20) == 5


async def test_the_live_view_follows_the_store_until_q(workshop: Workshop) -> None:
    await workshop.app.admin.queues()
    with on_terminal(workshop, "status", "--watch", "--url", workshop.url) as screen:
        await screen.shows("no queue has been used yet")
        await screen.shows("q quits")
        await workshop.task("quick").with_(queue="fresh").enqueue(1)
        await screen.shows("fresh")
        screen.type("q")
        assert screen.exit_code() == 0


async def test_the_live_view_ends_well_on_ctrl_c(workshop: Workshop) -> None:
    await workshop.app.admin.queues()
    with on_terminal(workshop, "status", "--watch", "--url", workshop.url) as screen:
        await screen.shows("q quits")
        screen.process.send_signal(signal.SIGINT)
        assert screen.exit_code() == 0
