"""Testing code that enqueues: a store in memory, and a worker that works everything off."""

from __future__ import annotations

from headrace import App

app = App("memory://")
sent: list[str] = []


@app.task
async def send(to: str) -> None:
    sent.append(to)


@app.task
async def invite(names: list[str]) -> None:
    for name in names:
        await send.enqueue(name)


async def test_everything_is_worked_off() -> None:
    sent.clear()
    async with app:
        await invite.enqueue(["ada", "grace"])
        await app.worker().run(burst=True)
    assert sorted(sent) == ["ada", "grace"]


async def test_a_task_is_a_function_and_can_be_tested_as_one() -> None:
    sent.clear()
    await send("ada")
    assert sent == ["ada"]


async def test_what_was_enqueued_can_be_looked_at() -> None:
    async with app:
        job = await send.with_(delay=60).enqueue("ada")
        info = await job.info()
        assert info.task == send.name
        assert info.due_at is not None
        await app.admin.purge("default")
