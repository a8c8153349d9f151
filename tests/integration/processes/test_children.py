"""Children and their jobs: no job gets the answer of another job, waits for ever, or is killed in place of
another."""

from __future__ import annotations

import asyncio
import importlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace import Job, JobFailed, JobStatus, RetryPolicy
from headrace.engine.running.children.process import ChildProcess
from tests.integration.programs import misbehaving_tasks as program
from tests.support.waiting import wait_until

ONCE = RetryPolicy.fixed(0, 0)


async def finished(jobs: list[Job[Any]], timeout: float = 40) -> list[Any]:
    return list(await asyncio.gather(*(job.result(timeout=timeout) for job in jobs)))


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def pid_in(path: Path) -> int:
    await wait_until(lambda: path.exists() and path.read_text(), timeout=20)
    return int(path.read_text())


async def test_a_job_that_was_given_up_leaves_nothing_to_the_next() -> None:
    async with program.app, program.app.worker(children=1):
        await (await program.secret_of.enqueue("nobody")).result(timeout=20)
        alice = program.secret_of.with_(headers={"within": "0.2"}, retry=ONCE)
        given_up = await alice.enqueue("alice", 2)
        with pytest.raises(JobFailed):
            await given_up.result(timeout=20)
        names = [f"bob {number}" for number in range(5)]
        jobs = [await program.secret_of.enqueue(name) for name in names]
        assert await finished(jobs) == [f"secret of {name}" for name in names]
        # The child of the job that was given up still works: it must not get another.
        assert [(await job.info()).attempts for job in jobs] == [1] * len(jobs)


async def test_the_timeout_counts_from_the_start_of_the_function() -> None:
    async with program.app, program.app.worker(children=2):
        task = program.secret_of.with_(timeout=5, retry=ONCE)
        jobs = [await task.enqueue(str(number), 0.8) for number in range(14)]  # the last one waits for 4.8 s
        assert len(await finished(jobs)) == 14


async def test_the_timeout_does_not_count_while_a_job_waits_for_its_child(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = ChildProcess.start

    async def start_late(gone: Callable[[ChildProcess], None]) -> ChildProcess:
        late = time.monotonic() + 5.5
        await wait_until(lambda: time.monotonic() > late, timeout=20)
        return await start(gone)

    monkeypatch.setattr(ChildProcess, "start", start_late)
    async with program.app, program.app.worker(children=1):
        job = await program.where.with_(timeout=5, retry=ONCE).enqueue()
        assert await job.wait(timeout=20) is JobStatus.SUCCEEDED


async def test_the_timeout_reaches_the_middleware_after_the_child_has_answered(tmp_path: Path) -> None:
    async with program.app, program.app.worker(children=1):
        task = program.where.with_(timeout=0.5, retry=ONCE, headers={"linger": str(tmp_path / "lingers")})
        assert await (await task.enqueue()).wait(timeout=20) is JobStatus.DEAD


async def test_a_run_whose_function_never_began_still_has_its_timeout() -> None:
    async with program.app, program.app.worker(children=1):
        task = program.secret_of.with_(timeout=0.05, retry=ONCE, headers={"instead": "yes"})
        assert await (await task.enqueue("nobody")).wait(timeout=20) is JobStatus.DEAD


async def test_a_child_gets_the_arguments_that_the_middleware_changed() -> None:
    async with program.app, program.app.worker(children=1):
        job = await program.secret_of.with_(headers={"renamed": "ada"}).enqueue("nobody")
        assert await job.result(timeout=20) == "secret of ada"


async def test_two_workers_share_the_work_of_their_children(tmp_path: Path) -> None:
    """Four jobs end when all four run: neither worker can have taken more than it has children."""
    async with program.app, program.other, program.app.worker(children=2):
        jobs = [await program.meet.with_(retry=ONCE).enqueue(str(tmp_path), 4) for _ in range(4)]
        async with program.app.worker(children=2):
            assert len(set(await finished(jobs))) == 4


async def test_a_worker_whose_children_are_busy_goes_on_with_other_work(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    async with program.app, program.app.worker(children=1, concurrency=2) as worker:
        jobs = [await program.wait_for.enqueue(str(gate)) for _ in range(5)]
        await wait_until(Path(f"{gate}.runs").exists, timeout=20)
        assert await (await program.on_the_loop.enqueue()).result(timeout=20) == "loop"
        assert worker.running == 1
        gate.touch()
        await finished(jobs)


async def test_a_cancelled_job_takes_no_child_from_another(tmp_path: Path) -> None:
    """One lingers in its middleware when its child has another job already."""
    lingers, gate = tmp_path / "lingers", tmp_path / "gate"
    async with program.app, program.app.worker(children=1):
        first = await program.where.with_(headers={"linger": str(lingers)}).enqueue()
        await wait_until(lingers.exists, timeout=20)
        second = await program.wait_for.with_(retry=ONCE).enqueue(str(gate))
        await wait_until(Path(f"{gate}.runs").exists, timeout=20)
        await first.cancel()
        assert await first.wait(timeout=20) is JobStatus.CANCELLED
        gate.touch()
        assert await second.result(timeout=20) == str(gate)
        info = await second.info()
        assert (info.crashes, info.failures) == (0, 0)


async def test_two_apps_may_have_a_task_of_the_same_name() -> None:
    async with program.app, program.app.worker(children=1):
        assert await (await program.of_app.enqueue()).result(timeout=20) == "app"
    async with program.other, program.other.worker(children=1):
        assert await (await program.of_other.enqueue()).result(timeout=20) == "other"


async def test_a_child_finds_the_tasks_of_a_module_that_was_loaded_again() -> None:
    importlib.reload(program)
    async with program.app, program.app.worker(children=1):
        assert await (await program.of_app.enqueue()).result(timeout=20) == "app"


@pytest.mark.parametrize("how", ["timeout", "cancel"])
async def test_what_a_job_has_started_ends_with_it(tmp_path: Path, how: str) -> None:
    path = tmp_path / "pid"
    async with program.app, program.app.worker(children=1):
        timeout = 5 if how == "timeout" else 60
        job = await program.hang_with_a_child.with_(timeout=timeout, retry=ONCE).enqueue(str(path))
        pid = await pid_in(path)
        if how == "cancel":
            await job.cancel()
        await job.wait(timeout=20)
        await wait_until(lambda: not is_alive(pid))


@pytest.mark.parametrize("how", ["fork", "exec"])
async def test_the_end_of_a_child_is_seen_though_others_hold_what_it_had(tmp_path: Path, how: str) -> None:
    path = tmp_path / "pid"
    async with program.app, program.app.worker(children=1):
        job = await program.die_before_a_child.enqueue(str(path), how)
        assert await job.wait(timeout=20) is JobStatus.DEAD
        assert (await job.info()).crashes == 3
        pid = await pid_in(path)
        await wait_until(lambda: not is_alive(pid))


async def test_what_a_job_starts_does_not_inherit_the_connection() -> None:
    async with program.app, program.app.worker(children=1):
        assert await (await program.inheritable_sockets.enqueue()).result(timeout=20) == []


async def test_a_child_that_talks_nonsense_is_killed() -> None:
    async with program.app, program.app.worker(children=1):
        before = await (await program.where.enqueue()).result(timeout=20)
        await (await program.talk_nonsense.with_(retry=ONCE).enqueue()).wait(timeout=20)
        names = [str(number) for number in range(3)]
        jobs = [await program.secret_of.enqueue(name) for name in names]
        assert await finished(jobs) == [f"secret of {name}" for name in names]
        assert await (await program.where.enqueue()).result(timeout=20) != before
    assert before != os.getpid()


async def test_an_answer_to_another_assignment_is_never_accepted() -> None:
    async with program.app, program.app.worker(children=1):
        job = await program.answer_for_another.enqueue()
        assert await job.wait(timeout=30) is JobStatus.DEAD
        assert "an assignment that it does not have" in (await job.info()).error


async def run_script(path: Path, source: str) -> subprocess.CompletedProcess[str]:
    path.write_text(source)
    return await asyncio.to_thread(
        subprocess.run, [sys.executable, str(path)], capture_output=True, text=True, timeout=50
    )


async def test_a_script_without_the_guard_is_told_about_it(tmp_path: Path) -> None:
    source = """
import asyncio
from headrace import App, JobFailed, RetryPolicy

app = App("memory://", retry=RetryPolicy.fixed(1, 0.01))

@app.task(run_in="process")
def double(number: int) -> int:
    return 2 * number

async def main() -> None:
    async with app:
        job = await double.enqueue(4)
        async with app.worker(children=1):
            try:
                print(await job.result(timeout=30))
            except JobFailed as error:
                print(error)

asyncio.run(main())
"""
    done = await run_script(tmp_path / "unguarded.py", source)
    assert 'if __name__ == "__main__":' in done.stdout, done


async def test_a_child_that_cannot_be_started_is_started_later(tmp_path: Path) -> None:
    """No descriptors are left for a while; the pool is none the smaller for it."""
    source = """
import asyncio, os, resource
from headrace import App, RetryPolicy, signals

app = App("memory://")
failed = 0

@app.task(run_in="process")
def double(number: int) -> int:
    return 2 * number

def count(signal):
    global failed
    failed += 1

async def main() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    app.on(signals.ChildNotStarted)(count)
    async with app, app.worker(children=1):
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) - 1, hard))
        jobs = [await double.enqueue(number) for number in range(3)]
        while failed < 2:
            await asyncio.sleep(0.01)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        print([await job.result(timeout=30) for job in jobs])

if __name__ == "__main__":
    asyncio.run(main())
"""
    done = await run_script(tmp_path / "crowded.py", source)
    assert done.stdout == "[0, 2, 4]\n", done
