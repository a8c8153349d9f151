"""A codec wraps what is stored: arguments and results, and nothing else."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator

import pytest

from headrace import App, InvalidPayload, RetryPolicy
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Stream
from headrace.stores import open_store
from tests.unit.behaviour.work import drain


class Compressed:
    """Refuses what it did not compress itself."""

    def encode(self, payload: bytes, /) -> bytes:
        return b"z" + zlib.compress(payload)

    def decode(self, data: bytes, /) -> bytes:
        if not data.startswith(b"z"):
            raise ValueError("not compressed")
        return zlib.decompress(data[1:])


@pytest.fixture
def url() -> str:
    return f"memory://{new_id()}"


@pytest.fixture
async def app(url: str) -> AsyncIterator[App]:
    async with App(url, codec=Compressed()) as app:
        yield app


async def test_arguments_and_results_go_through_it_and_back(app: App, url: str) -> None:
    @app.task(name="double")
    async def double(text: str) -> str:
        return text * 2

    job = await double.with_(headers={"a": "b"}).enqueue("secret" * 100)
    record = await open_store(url).get(Stream("queue", "default"), job.id)
    assert record is not None
    assert record.body is not None
    assert b"secret" not in record.body
    assert b"double" in record.body
    await drain(app)
    assert await job.result() == "secret" * 200


async def test_the_limit_is_for_what_is_stored(url: str) -> None:
    async with App(url, codec=Compressed(), max_payload=200) as app:

        @app.task(name="size")
        async def size(text: str) -> int:
            return len(text)

        job = await size.enqueue("x" * 10_000)
        await drain(app)
        assert await job.result() == 10_000


async def test_what_it_refuses_is_dead_with_its_bytes(app: App, url: str) -> None:
    async with App(url) as plain:

        @plain.task(name="size")
        async def old_size(text: str) -> int:
            return len(text)

        @app.task(name="size", retry=RetryPolicy.none())
        async def size(text: str) -> int:
            return len(text)

        job = await old_size.enqueue("not wrapped")
        await drain(app)
        (letter,) = await app.admin.dead()
        assert (letter.id, letter.reason) == (job.id, "invalid")
        assert "the app's codec refused the bytes: not compressed" in letter.error
        assert b"not wrapped" in letter.payload


async def test_a_result_that_it_refuses_is_an_error_of_the_tree(app: App, url: str) -> None:
    async with App(url) as plain:

        @plain.task(name="one")
        async def one() -> int:
            return 1

        job = await one.enqueue()
        await drain(plain)
        with pytest.raises(InvalidPayload, match="codec refused"):
            await app.job(job.id).result()


async def test_a_result_of_a_task_not_known_here_is_unwrapped_too(app: App, url: str) -> None:
    @app.task(name="one")
    async def one() -> int:
        return 1

    job = await one.enqueue()
    await drain(app)
    async with App(url, codec=Compressed()) as reader:
        assert await reader.job(job.id).result() == 1
    async with App(url) as stranger:
        with pytest.raises(InvalidPayload, match="a stored result of one does not fit"):
            await stranger.job(job.id).result()


async def test_equal_arguments_are_equal_whatever_the_codec_makes_of_them(url: str) -> None:
    class Salted(Compressed):
        def encode(self, payload: bytes, /) -> bytes:
            return super().encode(payload + new_id().encode())

        def decode(self, data: bytes, /) -> bytes:
            return super().decode(data)[:-26]

    async with App(url, codec=Salted()) as app:

        @app.task(name="see", unique=True)
        async def see(n: int) -> int:
            return n

        first = await see.enqueue(1)
        assert (await see.enqueue(1)).id == first.id
        await drain(app)
        assert await first.result() == 1


async def test_an_edit_is_wrapped_too(app: App) -> None:
    @app.task(name="see")
    async def see(n: int) -> int:
        return n

    job = await see.with_(delay=60).enqueue(1)
    assert await app.admin.edit(job.id, args=[2])
    await app.admin.retry_now(job.id)
    await drain(app)
    assert await job.result() == 2
