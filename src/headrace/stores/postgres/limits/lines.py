"""Keeps lines: which have messages, which are open, and which budget blocks the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from headrace.core.messages.constraints import NO_CONSTRAINTS, Constraints, LimitKey
from headrace.core.messages.message import Stream
from headrace.core.records.control import DueNotice
from headrace.stores.postgres.rows.columns import columns
from headrace.stores.postgres.session.connection import PostgresConnection
from headrace.stores.postgres.session.transaction import PostgresTransaction
from headrace.stores.postgres.statements import limit_statements
from headrace.stores.sql.limits.budgets import (
    Budget,
    constraints_of,
    figures_of,
    is_timer_due,
    stored_constraints,
)
from headrace.stores.sql.limits.line_changes import LineChanges, LineKey, TenantPlace

from .budgets import PostgresBudgets


class PostgresLines:
    """The lines that one step changes. The step has the lock of lines."""

    def __init__(self, transaction: PostgresTransaction) -> None:
        self._transaction = transaction
        self.budgets = PostgresBudgets(transaction)
        self.opened: dict[TenantPlace, None] = {}

    # --- messages come and go -----------------------------------------------------------------------------

    async def follow(self, changes: LineChanges) -> None:
        """Do for the lines what follows from the moves of a step."""
        if changes:
            await self.recount(changes.moved)
            await self._release(changes)
            await self.write()
            await self.budgets.write(changes.ended)

    async def recount(self, moved: Mapping[LineKey, int]) -> None:
        """Messages have joined and left lines, each by this difference. The messages are written already."""
        if not moved:
            return
        rows = columns([(*key, difference) for key, difference in moved.items()])
        gone: list[tuple[int, int, str, str]] = []
        for stream, place, tenant, content in await self._transaction.rows(limit_statements.RECOUNT, rows):
            if content is None:
                self.opened[stream, place, tenant] = None
            else:
                gone.append((stream, place, tenant, content))
        if gone:
            places = columns({line[:3] for line in gone})
            await self._transaction.change(limit_statements.DROP_TENANTS, places)
            await self.offer_to([(constraints_of(content), stream) for stream, _, _, content in gone])

    async def _release(self, changes: LineChanges) -> None:
        """Give back the slots of messages that have left their claims."""
        if not changes.released:
            return
        constraints = changes.known
        unknown = {number for number, _ in changes.released} - constraints.keys()
        if unknown:
            rows = await self._transaction.rows(limit_statements.READ_CONSTRAINTS, (list(unknown),))
            constraints |= {number: constraints_of(content) for number, content in rows}
        await self.budgets.load(constraints.values())
        freed: Counter[LimitKey] = Counter()
        budgets: dict[LimitKey, Budget] = {}
        for number, unstarted in changes.released:
            held = constraints.get(
                number, NO_CONSTRAINTS
            )  # a damaged row may name constraints that do not exist
            for budget in self.budgets.of(held):
                budget.give_back(self._transaction.now_us, unstarted=unstarted)
                freed[budget.key] += 1
                budgets[budget.key] = budget
        await self._offer([(budgets[key], count) for key, count in freed.items()])

    # --- opening and blocking -----------------------------------------------------------------------------

    async def offer_to(self, several: Sequence[tuple[Constraints, int]]) -> None:
        """Open lines took nothing, or are empty: open the next line of the same stream for each limit."""
        await self.budgets.load(constraints for constraints, _ in several)
        wanted = Counter(
            (budget.number, stream)
            for constraints, stream in several
            for budget in self.budgets.of(constraints)
            if self.can_offer(budget)
        )
        await self._open_first(wanted)

    async def _offer(self, freed: Sequence[tuple[Budget, int]]) -> None:
        """Slots or tokens are free: open the first lines of each stream. Any of these streams may have no
        worker, so one alone is not enough."""
        counts = {budget.number: count for budget, count in freed if self.can_offer(budget)}
        if counts:
            rows = await self._transaction.rows(limit_statements.BLOCKED_STREAMS, (list(counts),))
            await self._open_first({(budget, stream): counts[budget] for budget, stream in rows})

    def can_offer(self, budget: Budget) -> bool:
        return budget.blocks and budget.is_free(self._transaction.now_us)

    async def _open_first(self, wanted: Mapping[tuple[int, int], int]) -> None:
        """Open the first lines of streams that budgets block. `wanted`: budget and stream, how many."""
        if wanted:
            rows = columns([(*key, count) for key, count in wanted.items()])
            opened = await self._transaction.rows(limit_statements.OPEN_FIRST, rows)
            self.opened.update(dict.fromkeys(opened))

    async def open_all(self, limit: str) -> None:
        """The figures of a limit have changed: its lines ask again. One that finds no token sets a timer."""
        values = (self._transaction.namespace, limit)
        self.opened.update(dict.fromkeys(await self._transaction.rows(limit_statements.OPEN_ALL, values)))
        await self._transaction.change(limit_statements.STOP_TIMERS, values)
        await self.write()

    async def write(self) -> None:
        """Write which tenants have open lines, and wake the claims of their streams."""
        opened, self.opened = self.opened, {}
        if opened:
            await self._transaction.change(limit_statements.ADD_TENANTS, columns(opened))
            self._transaction.ready.update(await self._streams({stream for stream, _, _ in opened}))

    async def _streams(self, numbers: Iterable[int]) -> list[Stream]:
        rows = await self._transaction.rows(limit_statements.READ_STREAMS, (list(numbers),))
        return [Stream(kind, name) for _, kind, name in rows]

    # --- time ---------------------------------------------------------------------------------------------

    async def set_timer(self, budget: Budget, stream: int) -> None:
        if not budget.set_timer(self._transaction.now_us):
            return
        first = await self._transaction.row(limit_statements.FIRST_TIMER, (self._transaction.namespace,))
        if first is None or budget.timer_us < first[2]:
            (named,) = await self._streams([stream])
            self._transaction.announce(DueNotice(named))

    async def look(self) -> None:
        """Open lines for the tokens that came back."""
        transaction = self._transaction
        while key := await due_timer(transaction, transaction.namespace, transaction.now_us):
            constraints = Constraints((key,))
            await self.budgets.load([constraints])
            (budget,) = self.budgets.of(constraints)
            budget.timer_us = 0
            tokens = budget.tokens(transaction.now_us)
            streams = await transaction.rows(limit_statements.BLOCKED_STREAMS, ([budget.number],))
            if tokens > 0:
                await self._open_first({(budget.number, stream): tokens for _, stream in streams})
            for _, stream in streams:
                if await transaction.value(limit_statements.IS_BLOCKING, (budget.number, stream)):
                    await self.set_timer(budget, stream)
            await self.write()
            await self.budgets.write()


async def drop_constraints(transaction: PostgresTransaction, ended: Iterable[int]) -> None:
    """Forget constraints of messages that have ended, unless other messages have them."""
    if numbers := list(ended):
        await transaction.change(limit_statements.DROP_CONSTRAINTS, (numbers,))


async def due_timer(
    connection: PostgresConnection | PostgresTransaction, namespace: str, now_us: int
) -> LimitKey | None:
    """The budget for which tokens must be looked for now."""
    rows = await connection.rows(limit_statements.FIRST_TIMER, (namespace,))
    if not rows:
        return None
    name, key, timer_us, next_us, figures = rows[0]
    return LimitKey(name, key) if is_timer_due(timer_us, next_us, figures_of(figures), now_us) else None


async def next_timer_us(
    connection: PostgresConnection | PostgresTransaction, namespace: str, now_us: int
) -> int | None:
    """When tokens must be looked for; now, when it is time."""
    rows = await connection.rows(limit_statements.FIRST_TIMER, (namespace,))
    if not rows:
        return None
    _, _, timer_us, next_us, figures = rows[0]
    return now_us if is_timer_due(timer_us, next_us, figures_of(figures), now_us) else int(timer_us)


async def numbers_of(
    transaction: PostgresTransaction, stream: int, several: Iterable[Constraints]
) -> dict[Constraints, int]:
    """The numbers of constraints. New ones get a number."""
    stored = {stored_constraints(each): each for each in dict.fromkeys(several)}
    if not stored:
        return {}
    rows = columns([(content, each.tenant) for content, each in stored.items()])
    found = await transaction.rows(limit_statements.NUMBER_CONSTRAINTS, (stream, *rows))
    return {stored[content]: number for content, number in found}
