"""Writes jobs and events in a transaction of the user: into the store itself, if it is in the same database,
or into the outbox of the database."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final, TypeVar

from headrace.core.errors import BackendUnavailable, ConfigurationError
from headrace.core.messages.outgoing import Outgoing
from headrace.core.outbox.database import Dialect, OutboxDatabase, Recognition, Statement, UserDatabase
from headrace.core.records.answers import Answer
from headrace.engine.app_loop.app_loop import AppLoop

from .connections import UserConnection, recognised

T = TypeVar("T")

#: Whether the caller uses a method of `app.sync`.
_is_plain_call: ContextVar[bool] = ContextVar("headrace_plain_call", default=False)

MAIN_FILE = Statement("SELECT file FROM pragma_database_list WHERE name = 'main'")

#: How the URL of an outbox begins.
_URLS: Final[dict[Dialect, str]] = {"postgresql": "postgresql://…", "sqlite": "sqlite:///…"}


class TransactionWriter:
    """`own_file` is the file of the app's own SQLite store."""

    def __init__(
        self, app_loop: AppLoop, outbox: OutboxDatabase | None, own_file: Path | None = None
    ) -> None:
        self._outbox = outbox
        self._app_loop = app_loop
        self._own_file = own_file
        self._own: UserDatabase | None = None

    async def prepare(self) -> None:
        """Learn which database the outbox is in, before there is a transaction: then the first one needs no
        second connection, for which a pooler may have no room. An outbox that cannot be reached now is asked
        again later."""
        if self._outbox is not None and not self._outbox.is_prepared:
            with suppress(BackendUnavailable, ConfigurationError):
                await self._outbox.prepare()

    async def write(self, given: object, outgoing: Sequence[Outgoing]) -> list[Answer] | None:
        """Write these messages on the user's connection. None: a relay hands them on. On a synchronous
        connection this never waits for the event loop, so that `run_here` can call it."""
        connection = recognised(given)
        if connection.is_async is _is_plain_call.get():
            raise _wrong_form(connection)
        if not connection.in_transaction:
            raise _no_transaction(given)
        database = await self._database_of(connection)
        if database.dialect is not None and connection.is_autocommit:
            raise _no_transaction(given)
        if not await database.is_ready_for(connection.ask, outgoing):
            await _beside(connection, lambda: database.make_ready(outgoing))
        return await database.write(connection.ask, outgoing)

    async def _database_of(self, connection: UserConnection) -> UserDatabase:
        """The database that this connection leads to."""
        await self._refuse_own_file(connection)
        for anew in (False, True):  # tables that were made anew have another id
            database = await self._recognised(connection, anew=anew)
            if database is not None:
                return database
        raise self._unknown(connection)

    async def _recognised(self, connection: UserConnection, *, anew: bool) -> UserDatabase | None:
        """None: the connection leads to none of the databases that the app knows."""
        without_tables: UserDatabase | None = None
        unreachable: BackendUnavailable | None = None
        for database in self._known():
            if database.dialect not in (None, connection.dialect):
                continue
            try:
                if anew or not database.is_prepared:
                    await _beside(connection, database.prepare)
            except BackendUnavailable as error:
                unreachable = error  # the connection may lead to the other one
                continue
            match await database.recognise(connection.ask):
                case Recognition.KNOWN:
                    return database
                case Recognition.NO_TABLES:
                    without_tables = database
        if unreachable is not None:
            raise unreachable
        if without_tables is None:
            return None
        raise ConfigurationError(
            f"the database of {_shown(connection.given)} has no table headrace_outbox, and nothing is made "
            f"in your transaction: run `headrace schema apply URL` once, if it is {without_tables.name}"
        )

    def _known(self) -> list[UserDatabase]:
        """The database of the store, if users can have transactions there, and that of the outbox."""
        own = self._app_loop.backend.store.user_database()
        if own is None or self._own is None or own.name != self._own.name or not self._own.is_prepared:
            self._own = own  # otherwise the one from before, which is prepared
        return [each for each in (self._own, self._outbox) if each is not None]

    async def _refuse_own_file(self, connection: UserConnection) -> None:
        if self._own_file is None or connection.dialect != "sqlite":
            return
        rows = await connection.ask(MAIN_FILE)
        if rows and rows[0][0] and _is_same(rows[0][0], self._own_file):
            raise ConfigurationError(
                f"{self._own_file} is the SQLite store of this app, which has a connection of its own: keep "
                "your tables in another file, and name that file as App(outbox='sqlite:///…')"
            )

    def _unknown(self, connection: UserConnection) -> ConfigurationError:
        known = "has no outbox" if self._outbox is None else f"has its outbox in {self._outbox.name}"
        return ConfigurationError(
            f"{_shown(connection.given)} leads to a database that this app does not know (the app {known}): "
            f"name the database with App(outbox='{_URLS[connection.dialect]}'), and make the tables there "
            "with `headrace schema apply URL`"
        )


async def _beside(connection: UserConnection, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Do work over another connection than that of the user. For a synchronous caller it has a thread and an
    event loop of its own."""
    if connection.is_async:
        await work()
        return
    failed: list[BaseException] = []

    def run() -> None:
        try:
            asyncio.run(work())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, name="headrace transactions", daemon=True)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]


def run_here(call: Coroutine[Any, Any, T]) -> T:
    """Run a call with a synchronous connection on this thread, without an event loop."""
    plain = _is_plain_call.set(True)
    try:
        call.send(None)
    except StopIteration as stop:
        value: T = stop.value
        return value
    finally:
        _is_plain_call.reset(plain)
        call.close()
    raise AssertionError("a synchronous connection never waits for the event loop")


def _wrong_form(connection: UserConnection) -> ConfigurationError:
    shown = _shown(connection.given)
    if connection.is_async:
        text = f"{shown} is asynchronous: await the method of the app, instead of that of app.sync"
    else:
        text = f"{shown} is synchronous and would block the event loop: use the method of app.sync"
    return ConfigurationError(text)


def _no_transaction(given: object) -> ConfigurationError:
    return ConfigurationError(
        f"{_shown(given)} has no open transaction: begin one, and the job exists if, and only if, it "
        "commits; without a transaction leave transaction= away"
    )


def _is_same(path: str, file: Path) -> bool:
    return Path(path).resolve() == file.resolve()


def _shown(given: object) -> str:
    return f"this connection ({type(given).__module__.partition('.')[0]})"
