"""A database of the user: in its transactions jobs and events are written, into the store itself or into an
outbox."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Literal, NamedTuple

from headrace.core.messages.outgoing import Outgoing
from headrace.core.records.answers import Answer

from .outbox import OutboxRecord, OutgoingBatch

Dialect = Literal["sqlite", "postgresql"]

Rows = Sequence[Sequence[Any]]


class Statement(NamedTuple):
    """A statement for a connection of any library. Each `{}` stands for the next value."""

    text: str
    values: tuple[Any, ...] = ()


#: Runs a statement on the connection of the user. It answers the rows, or none.
Ask = Callable[[Statement], Awaitable[Rows]]


class Recognition(Enum):
    """Whether a connection leads to a database."""

    KNOWN = "known"
    UNKNOWN = "unknown"  # it is another database
    NO_TABLES = "no tables"  # it may be this database, but the tables of headrace are missing


class UserDatabase(ABC):
    """A database that an app knows. `ask` runs statements on the connection of the user."""

    #: None: any.
    dialect: Dialect | None
    #: For people, without a password.
    name: str

    @property
    @abstractmethod
    def is_prepared(self) -> bool:
        """Whether `recognise` has what it needs."""

    @abstractmethod
    async def prepare(self) -> None:
        """Learn what `recognise` compares, over a connection of its own."""

    @abstractmethod
    async def recognise(self, ask: Ask) -> Recognition:
        """Find out whether the connection leads to this database. Changes nothing, and no statement fails.
        Raises a `ConfigurationError` when the user of the connection lacks a right."""

    async def is_ready_for(self, ask: Ask, outgoing: Sequence[Outgoing]) -> bool:
        """Whether `make_ready` has nothing to do."""
        return True

    async def make_ready(self, outgoing: Sequence[Outgoing]) -> None:  # noqa: B027 # for those that need it
        """Make what these messages share with others, over a connection of its own. In the transaction of the
        user, others would have to wait for its end."""

    @abstractmethod
    async def write(self, ask: Ask, outgoing: Sequence[Outgoing]) -> list[Answer] | None:
        """Write these messages, in order. Answers what the store says of each; None: it is not known yet,
        because a relay hands them on."""


class OutboxDatabase(UserDatabase):
    """A database with an outbox. The verbs below are for relays, which use a connection of their own."""

    #: Seconds between two looks of a relay while the outbox is empty.
    look_every: float
    #: The user cannot be told any more that a queue is full.
    waits_for_room = False

    def is_in(self, file: Path) -> bool:
        """Whether the outbox is in this SQLite file."""
        return False

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)

    @abstractmethod
    async def take(self, *, relay: str, limit: int, hold_us: int) -> list[OutgoingBatch]:
        """As `Outboxes.take_outgoing`."""

    @abstractmethod
    async def hand_on(self, batch: OutgoingBatch, *, kept: Sequence[int] = ()) -> None:
        """As `Outboxes.hand_on`."""

    @abstractmethod
    async def record(self) -> OutboxRecord:
        """How much waits."""

    async def added(self) -> None:
        """Wait until something may have been added since the last `take`; for ever, if that cannot be
        learnt."""
        await asyncio.Event().wait()

    async def is_empty(self) -> bool:
        return not (await self.record()).waiting

    @abstractmethod
    async def apply(self) -> str:
        """Make the tables, if they are missing. Answers in a few words what is there then. Repeatable."""

    @abstractmethod
    async def close(self) -> None:
        """Close the connection. The outbox may be used again and then connects anew."""

    @abstractmethod
    def for_other_loop(self) -> OutboxDatabase:
        """The same outbox for another event loop."""
