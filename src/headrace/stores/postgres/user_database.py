"""The database of the user, when it is PostgreSQL: jobs and events are written into the store itself, or into
an outbox beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, TypeVar

import msgspec
import psycopg
from psycopg.errors import LockNotAvailable

from headrace.core.errors import BackendUnavailable, ConfigurationError, RequestRefused
from headrace.core.messages.message import Message, Stream
from headrace.core.messages.outgoing import Outgoing, encode_outgoing
from headrace.core.moving.seal import moved_to
from headrace.core.outbox.database import Ask, Dialect, OutboxDatabase, Recognition, Statement, UserDatabase
from headrace.core.outbox.outbox import OutboxRecord, OutgoingBatch
from headrace.core.records.answers import Answer
from headrace.core.records.control import DueNotice
from headrace.core.runtime.clock import TimeSource
from headrace.stores.postgres.limits.ordered_jobs import line_of
from headrace.stores.postgres.rows.outbox_table import OF_USERS, TakenBatch
from headrace.stores.postgres.schema.grants import grants_for
from headrace.stores.postgres.schema.schema import EXISTS, READ_ID, apply, bring_up_to_date
from headrace.stores.postgres.session.connection import PostgresConnection
from headrace.stores.postgres.session.notifications import notice_of, notification_of, text_of
from headrace.stores.postgres.session.session import channel_of, offset_of
from headrace.stores.postgres.session.waiters import LISTENING, POLLING
from headrace.stores.postgres.statements.limit_statements import NOTE_LINES
from headrace.stores.postgres.statements.message_statements import NOTE_CHILDREN
from headrace.stores.sql.limits.budgets import stored_constraints
from headrace.stores.sql.wake_ups import WakeUps

from .address import PostgresAddress
from .faults import unavailable
from .statements import stream_statements

T = TypeVar("T")

COUNT: Final = "SELECT count(*), min(at_us) FROM headrace.headrace_outbox WHERE namespace = $1"

#: The verdict of a store whose content was moved to another one.
MOVED: Final = "moved"

#: The table that is written, the schema → the role of the connection, and whether it may write there. No row:
#: there are no tables.
RIGHTS: Final = """
SELECT CAST(current_user AS text), has_schema_privilege(schemas.oid, 'USAGE')
    AND has_table_privilege(meta.oid, 'SELECT') AND has_table_privilege(written.oid, 'INSERT')
FROM pg_catalog.pg_namespace AS schemas
    JOIN pg_catalog.pg_class AS meta ON meta.relnamespace = schemas.oid AND meta.relname = 'meta'
    JOIN pg_catalog.pg_class AS written ON written.relnamespace = schemas.oid AND written.relname = {}
WHERE schemas.nspname = {}
"""

#: Kinds, names, whether child work and limited jobs are to be held; namespace → the isolation of the
#: transaction, and how many of these streams are ready for that.
READY: Final = """
SELECT current_setting('transaction_isolation'), (
    SELECT count(*)
    FROM unnest(CAST({} AS text[]), CAST({} AS text[]), CAST({} AS boolean[]), CAST({} AS boolean[]))
        AS wanted (kind, name, child, limited)
        JOIN SCHEMA.streams AS streams ON streams.kind = wanted.kind AND streams.name = wanted.name
    WHERE namespace = {} AND established AND sealed = 0 AND held_children >= child AND held_lines >= limited)
"""

#: Milliseconds to wait for another transaction that makes the same stream.
LOCK_TIMEOUT: Final = 2000

#: Rows in one statement.
ROWS: Final = 100

#: Appends messages in the order of their rows. Bodies are sent as hex digits: psycopg spoils a list of bytes
#: when the server has `standard_conforming_strings = off`.
WRITE: Final = """
SELECT verdict, stored_id
FROM SCHEMA.append_within(CAST({} AS text), CAST({} AS text[]), ARRAY(
    SELECT decode(body, 'hex')
    FROM unnest(CAST({} AS text[])) WITH ORDINALITY AS given (body, position) ORDER BY position))
"""


#: The notification goes with the commit. The server sends several of one transaction once.
WRITE_OUTBOX: Final = """
WITH added AS (INSERT INTO TABLE (namespace, content) VALUES MARKS RETURNING seq)
SELECT count(*), CAST(pg_notify(CAST({} AS text), '') AS text) FROM added
"""


class PostgresDatabase(UserDatabase):
    """Recognises a connection by the id that is stored in the tables: the URL says little, because of
    poolers, names and addresses of one server."""

    dialect: Dialect = "postgresql"
    _written: str  # the table that a transaction of the user writes into

    def __init__(self, address: PostgresAddress, *, namespace: str, clock: TimeSource, id: str = "") -> None:
        self.name = address.description
        self._address = address
        self._namespace = namespace
        self._clock = clock
        self._id = id

    @property
    def is_prepared(self) -> bool:
        return bool(self._id)

    async def recognise(self, ask: Ask) -> Recognition:
        schema = self._address.schema
        rows = await ask(Statement(RIGHTS, (self._written, schema)))
        if not rows:
            return Recognition.NO_TABLES
        [[role, may_write]] = rows
        if not may_write:
            raise ConfigurationError(
                f"role {role} of your connection may not use the tables of headrace: let their owner run "
                + "; ".join(grants_for(schema, role))
            )
        rows = await ask(Statement(self._named(READ_ID)))
        return Recognition.KNOWN if rows and rows[0][0] == self._id else Recognition.UNKNOWN

    def _named(self, text: str) -> str:
        return text.replace("headrace.", f"{self._address.schema}.", 1)

    async def _connected(self, run: Callable[[PostgresConnection], Awaitable[T]]) -> T:
        """Use a connection for a moment."""
        try:
            connection = await PostgresConnection.open(self._address)
            try:
                return await run(connection)
            finally:
                await connection.close()
        except psycopg.Error as error:
            raise unavailable(self._address.description, error) from error


class PostgresOwnDatabase(PostgresDatabase):
    """The database of the store itself. One function writes a message into it."""

    _written = "messages"

    def __init__(self, address: PostgresAddress, *, namespace: str, clock: TimeSource, id: str = "") -> None:
        super().__init__(address, namespace=namespace, clock=clock, id=id)
        # Streams, whether they are to have child work, and whether messages with constraints.
        self._made: set[tuple[Stream, bool, bool]] = set()

    async def prepare(self) -> None:
        async def read(connection: PostgresConnection) -> str:
            await bring_up_to_date(connection, self._address)
            self._made.clear()  # the tables may be new
            [(id,)] = await connection.rows(READ_ID)
            return str(id)

        self._id = await self._connected(read)

    async def is_ready_for(self, ask: Ask, outgoing: Sequence[Outgoing]) -> bool:
        wanted = {_wanted(each) for each in outgoing} - self._made
        if not wanted:
            return True
        kinds, names = [stream.kind for stream, _, _ in wanted], [stream.name for stream, _, _ in wanted]
        child, limited = [child for _, child, _ in wanted], [limited for _, _, limited in wanted]
        text = READY.replace("SCHEMA", self._address.schema)
        rows = await ask(Statement(text, (kinds, names, child, limited, self._namespace)))
        [[isolation, ready]] = rows
        if isolation != "read committed":
            return True  # it would not see what is made now
        if ready == len(wanted):
            self._made |= wanted
        return bool(ready == len(wanted))

    async def make_ready(self, outgoing: Sequence[Outgoing]) -> None:
        """Make the streams: a stream that an open transaction makes cannot be used by others."""
        wanted = {_wanted(each) for each in outgoing} - self._made

        async def make(connection: PostgresConnection) -> None:
            await connection.run(f"BEGIN; SET LOCAL lock_timeout = {LOCK_TIMEOUT}")
            for stream, child, limited in wanted:
                name = (self._namespace, stream.kind, stream.name, True)
                [(number,)] = await connection.rows(stream_statements.OPEN, name)
                if child:
                    await connection.change(NOTE_CHILDREN, (number,))
                if limited:
                    await connection.change(NOTE_LINES, (number,))
            await connection.change("COMMIT")
            self._made |= wanted

        try:
            await self._connected(make)
        except BackendUnavailable as error:
            if not isinstance(error.__cause__, LockNotAvailable):
                raise  # otherwise the statement of the user waits, too

    async def write(self, ask: Ask, outgoing: Sequence[Outgoing]) -> list[Answer]:
        text = WRITE.replace("SCHEMA", self._address.schema)
        answers: list[Answer] = []
        for start in range(0, len(outgoing), ROWS):
            some = outgoing[start : start + ROWS]
            messages = [self._message(each) for each in some]
            bodies = [each.message.body.hex() for each in some]
            rows = await ask(Statement(text, (self._namespace, messages, bodies)))
            if any(verdict == MOVED for verdict, _ in rows):
                raise moved_to(rows[0][1])
            answers += [Answer(id, verdict) for verdict, id in rows]
        return answers

    def _message(self, outgoing: Outgoing) -> str:
        """What the function needs of a message, as JSON: every driver sends a text alike."""
        message, stream, unique = outgoing.message, outgoing.stream, outgoing.message.unique
        constraints = line_of(message) if stream.kind == "queue" else None
        tenant = constraints.tenant if constraints is not None else ""
        if "\0" in (unique.key if unique else "") + message.key + tenant:
            # The server would refuse it, and with it the transaction of the user.
            raise RequestRefused("PostgreSQL cannot store a key with the character NUL: send another key")
        document = {
            "kind": stream.kind,
            "name": stream.name,
            **_options(message),
            "unique_key": unique.key if unique else None,
            "unique_until": unique.until if unique else None,
            "window_us": unique.window_us if unique else 0,
            "constraints": None if constraints is None else stored_constraints(constraints),
            "max_waiting": outgoing.limit,
            "offset_us": offset_of(self._clock),
            "channel": channel_of(self._address.schema, self._namespace),
            "ready": text_of(notification_of("", WakeUps({stream}))),
            "due": notice_of([DueNotice(stream)]),
        }
        return msgspec.json.encode(document).decode()


def _wanted(outgoing: Outgoing) -> tuple[Stream, bool, bool]:
    stream, message = outgoing.stream, outgoing.message
    return stream, message.child, stream.kind == "queue" and line_of(message) is not None


def _options(message: Message) -> dict[str, object]:
    names = (
        "id",
        "task",
        "priority",
        "child",
        "delay_us",
        "due_us",
        "lifetime_us",
        "expired_ttl_us",
        "key",
        "on_duplicate",
    )
    return {name: getattr(message, name) for name in names}


class PostgresOutbox(PostgresDatabase, OutboxDatabase):
    """The transaction of the user sends a notification, and the connection of a relay listens."""

    _written = "headrace_outbox"

    def __init__(self, url: str, *, namespace: str, clock: TimeSource) -> None:
        super().__init__(PostgresAddress.parse(url), namespace=namespace, clock=clock)
        self._url = url
        self._channel = channel_of(self._address.schema, f"outbox\n{namespace}")
        self._connection: PostgresConnection | None = None
        self._lock = asyncio.Lock()
        self._listens = False

    @property
    def look_every(self) -> float:  # type: ignore[override]
        return LISTENING if self._listens else POLLING

    def for_other_loop(self) -> PostgresOutbox:
        return PostgresOutbox(self._url, namespace=self._namespace, clock=self._clock)

    async def prepare(self) -> None:
        async def read(connection: PostgresConnection) -> str:
            [(has_tables,)] = await connection.rows(EXISTS)
            rows = await connection.rows(READ_ID) if has_tables else []
            return str(rows[0][0]) if rows else ""

        self._id = await self._connected(read)

    async def write(self, ask: Ask, outgoing: Sequence[Outgoing]) -> None:
        contents = [encode_outgoing(each) for each in outgoing]
        table = f"{self._address.schema}.headrace_outbox"
        for start in range(0, len(contents), ROWS):
            some = contents[start : start + ROWS]
            marks = ", ".join(["({}, {})"] * len(some))
            values = [value for content in some for value in (self._namespace, content)]
            text = WRITE_OUTBOX.replace("TABLE", table).replace("MARKS", marks)
            await ask(Statement(text, (*values, self._channel)))

    # --- for relays --------------------------------------------------------------------------------------

    async def added(self) -> None:
        connection = self._connection
        if not self._listens or connection is None:
            await super().added()
        else:
            with suppress(psycopg.Error, OSError):  # it broke: the next look connects again
                await connection.notified()

    async def take(self, *, relay: str, limit: int, hold_us: int) -> list[OutgoingBatch]:
        async def take(connection: PostgresConnection) -> list[OutgoingBatch]:
            [(now_us,)] = await connection.rows(stream_statements.NOW, (offset_of(self._clock),))
            wanted = TakenBatch(relay, limit, hold_us, now_us)
            batch = await OF_USERS.take(connection, self._namespace, None, wanted)
            return [] if batch is None else [batch]

        async def look(connection: PostgresConnection) -> bool:
            await self._listen(connection)
            connection.forget_notifications()
            [(found,)] = await connection.rows(OF_USERS.is_any, (self._namespace,))
            return bool(found)

        return await self._run(take, in_transaction=True) if await self._run(look) else []

    async def _listen(self, connection: PostgresConnection) -> None:
        """Listens once on each connection of a relay. Behind a pooler notifications do not arrive."""
        if not connection.pooled and not connection.listens:
            await connection.listen(self._channel)
        self._listens = connection.listens

    async def hand_on(self, batch: OutgoingBatch, *, kept: Sequence[int] = ()) -> None:
        await self._run(
            lambda connection: OF_USERS.hand_on(connection, self._namespace, batch, frozenset(kept)),
            in_transaction=True,
        )

    async def record(self) -> OutboxRecord:
        async def count(connection: PostgresConnection) -> OutboxRecord:
            [(waiting, at_us)] = await connection.rows(COUNT, (self._namespace,))
            [(now_us,)] = await connection.rows(stream_statements.NOW, (offset_of(self._clock),))
            return OutboxRecord(None, waiting, max(0, now_us - at_us) if waiting else 0)

        return await self._run(count)

    async def apply(self) -> str:
        applied = await apply(self._address)
        return f"{self._address.description}: the tables are of version {applied.version}"

    async def close(self) -> None:
        async with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                await connection.close()

    async def _run(
        self, call: Callable[[PostgresConnection], Awaitable[T]], *, in_transaction: bool = False
    ) -> T:
        async with self._lock:
            try:
                if self._connection is None or not self._connection.is_alive():
                    self._connection = await PostgresConnection.open(self._address)
                connection = self._connection
                if in_transaction:
                    await connection.run(connection.begin)
                result = await call(connection)
                if in_transaction:
                    await connection.change("COMMIT")
                return result
            except BaseException as error:
                broken, self._connection = self._connection, None
                if broken is not None:
                    await broken.close()  # the server rolls back
                if isinstance(error, psycopg.Error):
                    raise unavailable(self._address.description, error) from error
                raise
