"""What was enqueued, and the assertions about it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from unittest.mock import ANY

import pytest
from pydantic import BaseModel

from headrace import App, InvalidPayload, JobStatus, Task, UnknownTask
from headrace.testing import Kit


@dataclass
class Address:
    street: str
    lines: tuple[int, int] = (1, 2)


class Order(BaseModel):
    number: int


@pytest.fixture
def send(app: App) -> Task[..., None]:
    @app.task(name="mail.send", queue="mail")
    async def send(to: str, subject: str = "hello", *, urgent: bool = False) -> None: ...

    return send


async def test_enqueued_has_every_job_in_order_with_its_arguments(kit: Kit, send: Task[..., None]) -> None:
    await send.enqueue("ann")
    job = await send.with_(delay=60, priority="high", headers={"trace": "1"}).enqueue("bob", urgent=True)
    first, second = kit.enqueued()
    assert (first.task, first.queue, first.args, first.kwargs) == ("mail.send", "mail", ("ann",), {})
    assert first.arguments == {"to": "ann", "subject": "hello", "urgent": False}
    assert (first.due_at, first.priority, first.headers) == (None, "normal", {})
    assert second.id == job.id
    assert second.arguments == {"to": "bob", "subject": "hello", "urgent": True}
    assert (second.status, second.priority, second.headers) == (JobStatus.SCHEDULED, "high", {"trace": "1"})
    assert second.due_at is not None
    assert second.due_at - kit.clock.now() > timedelta(seconds=50)


async def test_jobs_that_have_run_are_still_there(kit: Kit, send: Task[..., None]) -> None:
    await send.enqueue("ann")
    assert [job.status for job in kit.enqueued()] == [JobStatus.QUEUED]
    await kit.drain()
    assert [job.status for job in kit.enqueued()] == [JobStatus.SUCCEEDED]


async def test_of_one_task_only(app: App, kit: Kit, send: Task[..., None]) -> None:
    @app.task(name="other")
    async def other() -> None: ...

    await send.enqueue("ann")
    await other.enqueue()
    assert [job.task for job in kit.enqueued(other)] == ["other"]
    assert [job.task for job in kit.enqueued("mail.send")] == ["mail.send"]


async def test_a_duplicate_was_not_enqueued(kit: Kit, send: Task[..., None]) -> None:
    for _ in range(2):
        await send.with_(unique=True).enqueue("ann")
    assert len(kit.enqueued()) == 1


async def test_clear_forgets_them(kit: Kit, send: Task[..., None]) -> None:
    await send.enqueue("ann")
    kit.clear()
    assert kit.enqueued() == []
    await kit.drain()


async def test_arguments_are_compared_however_they_were_given(kit: Kit, send: Task[..., None]) -> None:
    job = await send.enqueue(to="ann", subject="hi")
    for found in (
        kit.assert_enqueued(send),
        kit.assert_enqueued("mail.send", queue="mail", count=1),
        kit.assert_enqueued(send, args=("ann",)),
        kit.assert_enqueued(send, kwargs={"to": "ann"}),
        kit.assert_enqueued(send, args=("ann",), kwargs={"subject": "hi"}),
        kit.assert_enqueued(send, kwargs={"urgent": False}),
        kit.assert_enqueued(send, args=(ANY, "hi")),
        kit.assert_enqueued(send.with_(delay=5), args=["ann", "hi"]),
        kit.assert_enqueued(send.call("ann", "hi")),
        kit.assert_enqueued(send.call("ann", "hi", urgent=False)),
    ):
        assert [each.id for each in found] == [job.id]


async def test_a_call_names_all_arguments(kit: Kit, send: Task[..., None]) -> None:
    await send.enqueue("ann", "hi")
    with pytest.raises(AssertionError):
        kit.assert_enqueued(send.call("ann"))
    kit.assert_not_enqueued(send.call("ann"))


async def test_what_is_not_there_is_told_with_what_is(kit: Kit, send: Task[..., None]) -> None:
    with pytest.raises(AssertionError, match=r"^mail\.send was not enqueued; nothing was enqueued$"):
        kit.assert_enqueued(send)
    await send.enqueue("ann", "x" * 1000)
    await send.with_(delay=60).enqueue("bob")
    with pytest.raises(AssertionError) as failed:
        kit.assert_enqueued(send, args=("cid",), kwargs={"urgent": True}, queue="post")
    first, head, ann, bob = str(failed.value).replace("; ", ";\n").splitlines()
    assert first == "mail.send with to='cid', urgent=True in queue 'post' was not enqueued;"
    assert head == "enqueued were:"
    assert ann.startswith("  mail.send(to='ann', subject='xxx")
    assert ann.endswith("urgent=False) in queue 'mail', queued")
    assert len(ann) < 400
    assert "mail.send(to='bob', subject='hello', urgent=False) in queue 'mail', scheduled, due at 2" in bob


async def test_a_long_list_is_cut(app: App, kit: Kit, send: Task[..., None]) -> None:
    await app.enqueue_many([send.call(str(n)) for n in range(40)])
    with pytest.raises(AssertionError, match=r"to='29'.*\n  … and 10 more$"):
        kit.assert_enqueued(send, args=("ann",))


async def test_counts_are_exact(kit: Kit, send: Task[..., None]) -> None:
    kit.assert_enqueued(send, count=0)
    await send.enqueue("ann")
    await send.enqueue("bob")
    assert len(kit.assert_enqueued(send, count=2)) == 2
    kit.assert_enqueued(send, args=("ann",), count=1)
    with pytest.raises(AssertionError, match="was enqueued 2 times, not 3; enqueued were:"):
        kit.assert_enqueued(send, count=3)


async def test_assert_not_enqueued(kit: Kit, send: Task[..., None]) -> None:
    kit.assert_not_enqueued()
    kit.assert_not_enqueued(send)
    await send.enqueue("ann")
    kit.assert_not_enqueued(send, args=("bob",))
    kit.assert_not_enqueued(send, queue="default")
    with pytest.raises(AssertionError, match=r"mail\.send with to='ann' was enqueued; enqueued were:"):
        kit.assert_not_enqueued(send, kwargs={"to": "ann"})
    with pytest.raises(AssertionError, match=r"nothing was to be enqueued, but enqueued were:\n  mail\.send"):
        kit.assert_not_enqueued()


async def test_a_slip_in_the_expectation_is_no_success(kit: Kit, send: Task[..., None]) -> None:
    with pytest.raises(UnknownTask, match=r"no task called 'mail\.sent'"):
        kit.assert_not_enqueued("mail.sent")
    with pytest.raises(InvalidPayload, match="unexpected keyword argument 'too'"):
        kit.assert_not_enqueued(send, kwargs={"too": "ann"})
    with pytest.raises(InvalidPayload, match="missing a required argument: 'to'"):
        kit.assert_not_enqueued(send.call())
    with pytest.raises(UnknownTask):
        kit.enqueued("mail.sent")


async def test_typed_arguments_are_compared_as_their_types(app: App, kit: Kit) -> None:
    @app.task(name="ship")
    async def ship(address: Address, order: Order, tags: set[str]) -> None: ...

    await ship.enqueue(Address("high street"), Order(number=7), {"a", "b"})
    [job] = kit.assert_enqueued(ship, args=(Address("high street"), Order(number=7), {"b", "a"}))
    assert job.args == (Address("high street"), Order(number=7), {"a", "b"})
    kit.assert_not_enqueued(ship, args=(Address("low street"),))


async def test_arguments_without_a_type_are_compared_as_what_is_sent(app: App, kit: Kit) -> None:
    @app.task(name="ship")
    async def ship(address, *parts, **more) -> None: ...  # type: ignore[no-untyped-def]

    await ship.enqueue(Address("high street"), 1, (2, 3), size=(1, 2))
    [job] = kit.assert_enqueued(ship, args=(Address("high street"), 1, (2, 3)))
    assert job.args[0] == {"street": "high street", "lines": [1, 2]}
    kit.assert_enqueued(ship.call(Address("high street"), 1, (2, 3), size=(1, 2)))
    kit.assert_not_enqueued(ship, args=(Address("high street"), 1, (2, 4)))
    kit.assert_not_enqueued(ship, args=(object(),))
