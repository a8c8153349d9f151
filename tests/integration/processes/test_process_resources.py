"""The lifespan and the dependencies of tasks that run in child processes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from headrace import JobFailed, Secret
from tests.integration.programs import resource_tasks


@pytest.fixture(autouse=True)
def story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    story = tmp_path / "story.txt"
    monkeypatch.setenv(resource_tasks.STORY, str(story))
    return story


def told(story: Path) -> dict[str, list[str]]:
    """What was told, by who told it: "here", the worker's process, or "child"."""
    lines: dict[str, list[str]] = {"here": [], "child": []}
    for line in story.read_text().splitlines():
        pid, _, what = line.partition(" ")
        lines["here" if int(pid) == os.getpid() else "child"].append(what)
    return lines


@pytest.mark.parametrize("task", [resource_tasks.plain, resource_tasks.coroutine])
async def test_a_child_has_a_lifespan_and_dependencies_of_its_own(task: Any, story: Path) -> None:
    async with resource_tasks.app, resource_tasks.app.worker(children=1):
        jobs = [await task.enqueue(number) for number in range(2)]
        results = [await job.result(timeout=20) for job in jobs]
    for number, (job, result) in enumerate(zip(jobs, results, strict=True)):
        a, pid, session, user = result
        assert (a, session, user) == (number, "session of engine", f"user of {job.id}")
        assert pid != os.getpid()
    assert told(story) == {
        "here": ["enter", "leave"],
        "child": ["enter", "engine", *["session", "session gone"] * 2, "engine gone", "leave"],
    }


async def test_a_failure_in_a_child_is_seen_by_its_dependencies(story: Path) -> None:
    async with resource_tasks.app, resource_tasks.app.worker(children=1):
        job = await resource_tasks.fail.enqueue()
        with pytest.raises(JobFailed, match="boom"):
            await job.result(timeout=20)
    assert told(story)["child"] == [
        "enter",
        "engine",
        "session",
        "rollback: boom",
        "session gone",
        "engine gone",
        "leave",
    ]


async def test_a_secret_reaches_a_child() -> None:
    async with resource_tasks.app, resource_tasks.app.worker(children=1):
        job = await resource_tasks.count.enqueue(Secret("swordfish"))
        assert await job.result(timeout=20) == 9


async def test_a_lifespan_that_cannot_be_entered_in_a_child_is_the_jobs_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with resource_tasks.app, resource_tasks.app.worker(children=1):
        monkeypatch.delenv(resource_tasks.STORY)
        job = await resource_tasks.count.enqueue(Secret("swordfish"))
        with pytest.raises(JobFailed, match=resource_tasks.STORY):
            await job.result(timeout=20)
        monkeypatch.setenv(resource_tasks.STORY, os.devnull)
