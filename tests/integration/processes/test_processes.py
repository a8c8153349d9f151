"""`run_in="process"`: children of our own, warm, parallel, and replaced one by one."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from headrace import ConfigurationError, Job, JobFailed, JobStatus, ResultNotKept, RetryPolicy, Task
from tests.integration.programs import cpu_tasks
from tests.support.waiting import wait_until


@pytest.fixture(autouse=True)
async def worker(caplog: pytest.LogCaptureFixture) -> AsyncIterator[None]:
    caplog.set_level("INFO")  # children log as their worker does
    async with cpu_tasks.app, cpu_tasks.app.worker(concurrency=10, children=2, grace=0):
        yield


async def _started(job: Job[Any]) -> None:
    async def running() -> bool:
        return await job.status() is JobStatus.RUNNING

    await wait_until(running)


async def test_a_job_runs_in_another_process_which_stays_for_the_next() -> None:
    first = await (await cpu_tasks.where.enqueue()).result(timeout=20)
    second = await (await cpu_tasks.where.enqueue()).result(timeout=20)
    assert first == second != os.getpid()


async def test_two_jobs_run_at_the_same_time_in_two_processes(tmp_path: Path) -> None:
    jobs = [await cpu_tasks.meet.enqueue(str(tmp_path)) for _ in range(2)]
    pids = await asyncio.gather(*(job.result(timeout=20) for job in jobs))
    assert len(set(pids)) == 2


async def test_the_child_knows_its_job_and_may_be_async() -> None:
    job = await cpu_tasks.who.with_(headers={"source": "test"}).enqueue(5)
    assert await job.result(timeout=20) == (job.id, 1, "test", 5)


@pytest.mark.parametrize("task", [cpu_tasks.enqueue_another, cpu_tasks.publish_one])
async def test_a_child_refuses_what_its_own_memory_store_would_lose(task: Task[[], None]) -> None:
    job = await task.enqueue()
    assert await job.wait(timeout=20) is JobStatus.DEAD
    info = await job.info()
    assert "headrace.ConfigurationError" in info.error_type
    assert "cannot enqueue or publish on memory://" in info.error


async def test_a_child_that_vanishes_is_that_jobs_crash_and_dead_at_the_third() -> None:
    job = await cpu_tasks.vanish.enqueue()
    assert await job.wait(timeout=20) is JobStatus.DEAD
    info = await job.info()
    assert (info.reason, info.crashes, info.failures) == ("crashed", 3, 0)
    assert "exited with 7" in info.error
    assert await (await cpu_tasks.where.enqueue()).result(timeout=20) != os.getpid()


async def test_a_timeout_kills_the_child_and_another_takes_its_place() -> None:
    before = await (await cpu_tasks.where.enqueue()).result(timeout=20)
    job = await cpu_tasks.hang.with_(timeout=0.2).enqueue()
    assert await job.wait(timeout=20) is JobStatus.DEAD
    assert "did not end within its timeout" in (await job.info()).error
    assert await (await cpu_tasks.where.enqueue()).result(timeout=20) != before


async def test_cancelling_kills_the_child() -> None:
    job = await cpu_tasks.hang.enqueue()
    await _started(job)
    assert await job.cancel()
    assert await job.wait(timeout=20) is JobStatus.CANCELLED


@pytest.mark.parametrize("how", ["once", "later"])
async def test_a_failure_in_a_child_is_retried_as_any_other(how: str) -> None:
    job = await cpu_tasks.fail.enqueue(how)
    assert await job.result(timeout=20) == "attempt 2"


async def _shows(job: Job[Any], fraction: float, text: str) -> None:
    async def shown() -> bool:
        progress = (await job.info()).progress
        return progress is not None and (progress.fraction, progress.text) == (fraction, text)

    await wait_until(shown, timeout=20, message=text)


async def test_of_all_that_a_child_says_of_its_progress_the_last_is_seen() -> None:
    job = await cpu_tasks.chatter.enqueue(10_000)
    await _shows(job, 1.0, "row 10000")
    assert await job.cancel()
    assert await job.wait(timeout=20) is JobStatus.CANCELLED
    assert (await job.info()).progress is None


async def test_a_coroutine_in_a_child_says_it_too() -> None:
    job = await cpu_tasks.say.enqueue("from a coroutine")
    await _shows(job, 0.5, "from a coroutine")
    await job.cancel()


async def test_a_thread_says_it_too() -> None:
    job = await cpu_tasks.say_in_thread.enqueue("from a thread")
    await _shows(job, 0.5, "from a thread")
    await job.cancel()


async def test_what_one_job_says_is_never_taken_for_the_next_ones() -> None:
    for _ in range(20):
        await (await cpu_tasks.say_and_end.enqueue()).wait(timeout=20)
    job = await cpu_tasks.hang.enqueue()
    await _started(job)
    assert (await job.info()).progress is None
    run = await cpu_tasks.where.enqueue()
    assert await run.result(timeout=20) != os.getpid()
    assert (await job.info()).progress is None
    await job.cancel()


async def test_a_child_killed_in_the_middle_of_its_progress_runs_again_without_it() -> None:
    job = await cpu_tasks.chatter.with_(timeout=0.5, retry=RetryPolicy.fixed(1, 0)).enqueue(1_000_000)
    assert await job.wait(timeout=20) is JobStatus.DEAD
    info = await job.info()
    assert (info.failures, info.progress) == (2, None)


async def _wrote(job: Job[Any], text: str) -> None:
    async def written() -> bool:
        return any(line.text == text for line in (await job.info()).log)

    await wait_until(written, timeout=20, message=text)


async def test_what_a_child_logs_is_kept_with_its_job() -> None:
    for lines in (3, 0, 1):
        job = await cpu_tasks.write.enqueue(lines)
        assert await job.result(timeout=20) != os.getpid()
        info = await job.info()
        told = [(line.attempt, line.level, line.text) for line in info.log]
        few = [(1, "info", f"line {number}") for number in range(lines)]
        assert told == [*few, (1, "warning", f"the last of {lines}")]
        assert info.log_dropped == 0
        assert info.ended_at is not None
        assert all(0 <= (info.ended_at - line.at).total_seconds() < 60 for line in info.log)


async def test_of_all_that_a_child_logs_the_latest_lines_are_kept() -> None:
    job = await cpu_tasks.write.enqueue(5000)
    await job.result(timeout=20)
    info = await job.info()
    assert [line.text for line in info.log] == [
        *(f"line {number}" for number in range(4981, 5000)),
        "the last of 5000",
    ]
    assert info.log_dropped == 4981


async def test_what_a_child_logs_is_seen_while_it_runs_and_after_it_was_killed() -> None:
    job = await cpu_tasks.write_and_hang.enqueue("still here")
    await _wrote(job, "still here")
    assert await job.status() is JobStatus.RUNNING
    await job.cancel()
    assert await job.wait(timeout=20) is JobStatus.CANCELLED
    assert [line.text for line in (await job.info()).log] == ["still here"]


async def test_an_error_brings_its_remote_type_and_traceback() -> None:
    job = await cpu_tasks.fail.enqueue("never")
    with pytest.raises(JobFailed) as caught:
        await job.result(timeout=20)
    assert caught.value.error_type == "headrace.Unrecoverable"
    assert "cpu_tasks.py" in caught.value.traceback
    assert (await job.info()).reason == "unrecoverable"


async def test_a_result_that_cannot_be_sent_is_a_success_without_one() -> None:
    job = await cpu_tasks.unspeakable.enqueue()
    with pytest.raises(ResultNotKept, match="cannot be encoded"):
        await job.result(timeout=20)
    assert await job.status() is JobStatus.SUCCEEDED


async def test_a_local_function_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="local function"):

        @cpu_tasks.app.task(run_in="process")
        def local() -> None: ...


async def test_a_script_finds_its_own_tasks_again(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        """
import asyncio, os
from headrace import App
app = App("memory://")

@app.task(run_in="process")
def where() -> int:
    return os.getpid()

async def main() -> None:
    async with app, app.worker():
        print("elsewhere", await (await where.enqueue()).result(timeout=20) != os.getpid())

if __name__ == "__main__":
    asyncio.run(main())
"""
    )
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, str(script)], capture_output=True, text=True, timeout=50
    )
    assert done.stdout == "elsewhere True\n", done.stderr
