"""What the dashboard shows of encrypted messages, with and without the key."""

from __future__ import annotations

from headrace import App, EncryptedCodec
from headrace.core.crypto.keys import new_key
from headrace.core.messages.ids import new_id
from headrace.dashboard import asgi

from .conftest import Visitor, text_of


async def test_arguments_and_results_are_shown_with_the_key_only() -> None:
    url, codec = f"memory://{new_id()}", EncryptedCodec(new_key())
    async with App(url, codec=codec) as app, App(url) as stranger:

        @app.task(name="echo")
        async def echo(text: str) -> str:
            return text

        done = await echo.enqueue("hello there")
        await app.worker().run(burst=True)
        waiting = await echo.with_(delay=3600).enqueue("hello again")
        with_key, without = Visitor(asgi(app)), Visitor(asgi(stranger))
        assert "hello there" in await shown(with_key, done.id)
        page = await shown(with_key, waiting.id)
        assert "hello again" in page
        assert "Edit the arguments" in page
        page = await shown(without, waiting.id)
        assert "it is encrypted, and no codec is known here" in page
        assert "Edit the arguments" not in page
        assert "It cannot be read: the result of echo is encrypted" in await shown(without, done.id)
        for visitor in (with_key, without):
            await visitor.client.aclose()


async def shown(visitor: Visitor, id: str) -> str:
    answer = await visitor.get(f"/job?id={id}")
    assert answer.status_code == 200
    return " ".join(text_of(answer.text).split())
