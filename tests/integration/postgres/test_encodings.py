"""Databases in another encoding than UTF8: `initdb` makes SQL_ASCII where the system has no locale."""

from __future__ import annotations

import psycopg
import pytest

from headrace import App
from headrace.core.errors import RequestRefused
from tests.integration.support.postgres_steps import new_name
from tests.support.postgres_server import PostgresServer

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]


async def database_in(server: PostgresServer, encoding: str) -> str:
    """The URL of a new database."""
    name = new_name("encoding")
    async with await psycopg.AsyncConnection.connect(server.url, autocommit=True) as connection:
        words = f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0"
        await connection.execute(words.encode())
    return server.url.replace("/postgres", f"/{name}")


def app_with_words(url: str) -> tuple[App, list[str]]:
    app, said = App(url), list[str]()

    @app.task(name="say")
    async def say(word: str) -> str:
        said.append(word)
        return word

    return app, said


async def test_a_database_in_sql_ascii_is_used(server: PostgresServer) -> None:
    url = await database_in(server, "SQL_ASCII")
    app, said = app_with_words(url)
    say = app.tasks["say"]
    async with app:
        job = await say.with_(unique_key="漢").enqueue("plain")
        assert (await job.info()).unique_key == "漢"
        async with await psycopg.AsyncConnection.connect(url) as own:
            await own.execute("SELECT 1")
            in_transaction = await say.with_(transaction=own).enqueue("in a transaction")
        assert isinstance(in_transaction.id, str)
        await app.worker(concurrency=1).run(burst=True)
        assert said == ["plain", "in a transaction"]
        assert await in_transaction.result(timeout=30) == "in a transaction"


async def test_the_encoding_of_the_environment_does_not_matter(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    async with App(server.url, namespace=new_name("encoding")) as app:
        job = await app.task(_nothing).with_(unique_key="漢").enqueue()
        assert (await job.info()).unique_key == "漢"


async def _nothing() -> None: ...


async def test_a_database_in_another_encoding_refuses_what_it_does_not_have(server: PostgresServer) -> None:
    app, said = app_with_words(await database_in(server, "LATIN1"))
    say = app.tasks["say"]
    async with app:
        with pytest.raises(RequestRefused, match="LATIN1"):
            await say.with_(unique_key="漢").enqueue("漢")
        job = await say.with_(unique_key="ü").enqueue("漢")
        assert (await job.info()).unique_key == "ü"
        await app.worker().run(burst=True)
        assert said == ["漢"]
