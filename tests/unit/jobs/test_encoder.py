"""From a call to its message: what is said of the id, and that a checked becomes what is written at once."""

from __future__ import annotations

import pytest

from headrace import App, PayloadTooLarge, Task
from headrace.core.messages.message import Stream, are_alike, decode_envelope


@pytest.fixture
def app() -> App:
    return App("memory://")


@pytest.fixture
def double(app: App) -> Task[[int], int]:
    @app.task(name="double")
    async def double(n: int) -> int:
        return 2 * n

    return double


def test_an_id_that_was_made_is_fresh(app: App, double: Task[[int], int]) -> None:
    _, message = app._jobs.encode(double.call(1))
    assert message.fresh
    _, message = app._jobs.encode(double.with_(delay=5).call(1))
    assert message.fresh


def test_an_id_that_was_given_may_be_known(app: App, double: Task[[int], int]) -> None:
    _, message = app._jobs.encode(double.with_(job_id="order-1").call(1))
    assert not message.fresh


def test_a_checked_call_becomes_the_message_that_is_made_at_once(app: App, double: Task[[int], int]) -> None:
    encoder, declared = app._jobs._encoder, app._jobs._declared["double"]
    for call in (double.call(7), double.with_(priority="high", queue="other").call(7)):
        stream, written = encoder.encode(call, declared)
        checked = encoder.check(call, declared)
        finished = encoder.finish(checked)
        assert checked.stream == stream
        assert (finished.task, finished.priority) == (written.task, written.priority)
        assert decode_envelope(finished.body).payload == decode_envelope(written.body).payload
        assert decode_envelope(finished.body).id == finished.id != written.id


def test_messages_are_alike_that_differ_in_id_and_body_alone(app: App, double: Task[[int], int]) -> None:
    def written(task: Task[[int], int]) -> object:
        return are_alike([app._jobs.encode(double.call(1))[1], app._jobs.encode(task.call(2))[1]])

    assert written(double)
    assert not written(double.with_(priority="low"))
    assert not written(double.with_(delay=1))
    assert not written(double.with_(expires=1))
    assert not written(double.with_(unique=True))
    assert not written(double.with_(job_id="order-1"))


async def test_when_one_of_many_is_wrong_none_is_stored(app: App) -> None:
    @app.task(name="keep")
    async def keep(data: bytes) -> None: ...

    backend = app._app_loop.backend
    calls = [keep.call(b"small") for _ in range(2_000)]
    with pytest.raises(PayloadTooLarge):
        await app.enqueue_many([*calls, keep.call(b"x" * (2 << 20))])
    assert (await backend.counts(Stream("queue", "default"))).queued == 0
