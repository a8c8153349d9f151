"""`headrace worker` on a real terminal: lines of finished jobs, Ctrl-C and `--reload`."""

from __future__ import annotations

from pathlib import Path

from headrace import App, JobStatus
from tests.integration.support.terminal import on_terminal
from tests.integration.support.worker_processes import Workshop

APP = "tests.integration.programs.recording_app:app"

CTRL_C = "\x03"

SHOP = """
from headrace import App

app = App({url!r})

@app.task
async def greet() -> str:
    return {greeting!r}
"""


async def test_each_finished_job_has_a_line_on_a_terminal_and_none_elsewhere(workshop: Workshop) -> None:
    with on_terminal(workshop, "worker", APP) as screen:
        await screen.shows("100 at a time")
        done = await workshop.task("quick").enqueue(1)
        await screen.shows(f"quick {done.id} done in ")
        died = await workshop.app.remote("quick").enqueue("no number")
        await screen.shows(f"quick {died.id} is dead after 1 attempt")
        screen.type(CTRL_C)
        await screen.shows("stopping: nothing is running")
        assert screen.exit_code() == 0
    worker = await workshop.start_ready()
    job = await workshop.task("quick").enqueue(2)
    assert await job.wait(timeout=20) is JobStatus.SUCCEEDED
    worker.kill()
    assert job.id not in worker.output


async def test_after_ctrl_c_the_worker_says_what_it_waits_for_and_how_to_stop_at_once(
    workshop: Workshop,
) -> None:
    with on_terminal(workshop, "worker", APP) as screen:
        job = await workshop.task("nap").enqueue(3600.0)
        await workshop.until(lambda: workshop.log.lines("started", id=job.id))
        screen.type(CTRL_C)
        await screen.shows("a second Ctrl-C stops at once")
        await screen.shows("stopping: 1 running, they have 25 s to end")
        screen.type(CTRL_C)
        await screen.shows("stopping at once: 1 running")
        await screen.shows("1 handed back")
        assert screen.exit_code() == 0
    assert await job.status() is JobStatus.QUEUED


async def test_a_worker_starts_again_when_a_file_changes(workshop: Workshop, tmp_path: Path) -> None:
    file, app = tmp_path / "shop.py", App(workshop.url)
    file.write_text(SHOP.format(url=workshop.url, greeting="first"))
    async with app:
        greet = app.remote("shop.greet")
        with on_terminal(workshop, "worker", "shop:app", "--reload", folder=tmp_path) as screen:
            assert await (await greet.enqueue()).result(timeout=30) == "first"
            file.write_text("this is no Python")
            await screen.shows("shop.py changed: the worker starts again")
            await screen.shows("Error: shop cannot be imported: SyntaxError")
            await screen.shows("it starts again when a file changes")
            file.write_text(SHOP.format(url=workshop.url, greeting="the second"))
            assert await (await greet.enqueue()).result(timeout=30) == "the second"
            screen.type(CTRL_C)
            await screen.shows("stopped after 1 job,")
            assert screen.exit_code() == 0
