"""Real commands beside a real worker process, and on a real terminal."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import msgspec

from headrace import JobStatus
from tests.integration.support.terminal import environment, on_terminal
from tests.integration.support.worker_processes import ROOT, Workshop

APP = "tests.integration.programs.recording_app:app"


class Answer(msgspec.Struct):
    """What a command said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.code == 0, self.err
        return msgspec.json.decode(self.out)


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
    assert (answer.code, "which stops it" in answer.out) == (0, True)
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
    job = await workshop.app.remote("quick").enqueue("no number")
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
