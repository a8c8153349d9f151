"""Keeps lines: which have messages, which are open, and which budget blocks the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from headrace.core.encoding.decoding import text_of
from headrace.core.messages.constraints import NO_CONSTRAINTS, Constraints, LimitKey
from headrace.core.messages.message import Stream
from headrace.core.records.control import DueNotice
from headrace.stores.sql.limits.budgets import Budget, constraints_of, figures_of, is_timer_due
from headrace.stores.sql.limits.line_changes import LineChanges, LineKey, TenantPlace
from headrace.stores.sql.limits.taking import OpenLine
from headrace.stores.sqlite.connection.connection import Connection
from headrace.stores.sqlite.statements import limit_statements
from headrace.stores.sqlite.statements.bulk_binding import listed, unlisted
from headrace.stores.sqlite.threads.transaction import Transaction

from .budgets import Budgets


class LineRow(NamedTuple):
    """A line as it is after a step has moved messages. `line` None: it has no row yet."""

    constraints: int
    place: int
    stream: int
    kind: str
    name: str
    content: str
    line: int | None
    waiting: int | None
    blocked_by: int | None
    first_us: int | None
    first_seq: int | None


class LineTable:
    """The lines that one step changes."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._connection = transaction.connection
        self.budgets = Budgets(transaction)
        self._opened: list[TenantPlace] = []

    # --- messages come and go -----------------------------------------------------------------------------

    def follow(self, changes: LineChanges) -> None:
        """Do for the lines what follows from the moves of a step."""
        if changes:
            self.recount(changes.moved)
            self._release(changes)
            self.write()
            self.budgets.write()
        drop_constraints(self._connection, changes.ended)

    def recount(self, moved: Mapping[LineKey, int]) -> None:
        """Messages have joined and left lines, each by this difference. The messages are written already."""
        if not moved:
            return
        rows = [
            LineRow(*row)
            for row in unlisted(self._connection.value(limit_statements.READ_LINES, (listed(moved),)))
        ]
        gone = [row for row in rows if row.first_seq is None and row.line is not None]
        new = [row for row in rows if row.first_seq is not None and row.line is None]
        kept = [row for row in rows if row.first_seq is not None and row.line is not None]
        if gone:
            self._connection.change(limit_statements.DROP_LINES, (listed(row.line for row in gone),))
        if kept:
            changes = [(row.line, moved[row[:2]], row.first_us, row.first_seq) for row in kept]
            self._connection.change(limit_statements.CHANGE_LINES, (listed(changes),))
        self._add(new, moved)
        self._drop_tenants(gone)
        for row in gone:
            self.offer_to(constraints_of(row.content), row.stream)

    def change(self, lines: Iterable[OpenLine]) -> None:
        """Messages were taken from lines whose first message after that is loaded."""
        changes = [
            (line.line, -line.taken, line.messages[0].at_us, line.messages[0].seq)
            for line in lines
            if line.messages
        ]
        if changes:
            self._connection.change(limit_statements.CHANGE_LINES, (listed(changes),))

    def _add(self, new: list[LineRow], moved: Mapping[LineKey, int]) -> None:
        if not new:
            return
        tenants = [(row.stream, row.place, constraints_of(row.content).tenant) for row in new]
        added = [
            (row.constraints, *place, moved[row[:2]], row.first_us, row.first_seq)
            for row, place in zip(new, tenants, strict=True)
        ]
        lines = [(constraints, place, stream, *rest) for constraints, stream, place, *rest in added]
        self._connection.change(limit_statements.ADD_LINES, (listed(lines),))
        self._opened += tenants

    def _drop_tenants(self, gone: list[LineRow]) -> None:
        if gone:
            places = {(row.stream, row.place, constraints_of(row.content).tenant) for row in gone}
            self._connection.change(limit_statements.DROP_TENANTS_WITHOUT_LINES, (listed(places),))

    def _release(self, changes: LineChanges) -> None:
        """Give back the slots of messages that have left their claims."""
        if not changes.released:
            return
        constraints = changes.known
        unknown = {number for number, _ in changes.released} - constraints.keys()
        if unknown:
            stored = unlisted(self._connection.value(limit_statements.READ_CONSTRAINTS, (listed(unknown),)))
            constraints |= {number: constraints_of(content) for number, content in stored}
        self.budgets.load(constraints.values())
        freed: Counter[LimitKey] = Counter()
        budgets: dict[LimitKey, Budget] = {}
        for (number, unstarted), count in Counter(changes.released).items():
            held = constraints.get(
                number, NO_CONSTRAINTS
            )  # a damaged row may name constraints that do not exist
            for budget in self.budgets.of(held):
                budget.give_back(self._transaction.now_us, count, unstarted=unstarted)
                freed[budget.key] += count
                budgets[budget.key] = budget
        for key, count in freed.items():
            self._offer(budgets[key], count)

    # --- opening and blocking -----------------------------------------------------------------------------

    def block(self, line: int, stream: int, constraints: Constraints, budget: Budget) -> None:
        """A line has asked a budget in vain."""
        self._connection.change(limit_statements.BLOCK_LINE, (line, self.budgets.number_of(budget)))
        budget.blocks = True
        self._set_timer(budget, stream)
        self.offer_to(constraints, stream)

    def offer_to(self, constraints: Constraints, stream: int) -> None:
        """An open line took nothing, or is empty: open the next line of the same stream for each limit."""
        for budget in self.budgets.of(constraints):
            if budget.blocks and budget.is_free(self._transaction.now_us):
                self._open_first(budget, stream)

    def _offer(self, budget: Budget, count: int) -> None:
        """Slots or tokens are free: open the first lines of each stream. Any of these streams may have no
        worker, so one alone is not enough."""
        if budget.blocks and budget.is_free(self._transaction.now_us):
            for stream in self._blocked_streams(budget):
                for _ in range(count):
                    if not self._open_first(budget, stream):
                        break

    def _blocked_streams(self, budget: Budget) -> list[int]:
        rows = self._connection.rows(limit_statements.BLOCKED_STREAMS, (budget.number,))
        return [stream for (stream,) in rows]

    def _open_first(self, budget: Budget, stream: int) -> bool:
        rows = self._connection.rows(limit_statements.OPEN_FIRST, (budget.number, stream))
        self._note_opened(rows)
        return bool(rows)

    def _note_opened(self, rows: Iterable[tuple[int, int, int, bytes]]) -> None:
        for line, stream, place, stored in rows:
            tenant = text_of(stored)
            if tenant.encode() != stored:  # a damaged row: claims find the line under a name that can be read
                self._connection.change(limit_statements.NAME_TENANT, (line, tenant))
            self._opened.append((stream, place, tenant))

    def open_all(self, limit: str) -> None:
        """The figures of a limit have changed: its lines ask again. One that finds no token sets a timer."""
        name = (self._transaction.namespace, limit)
        self._note_opened(self._connection.rows(limit_statements.OPEN_ALL, name))
        self._connection.change(limit_statements.STOP_TIMERS, name)
        self.write()

    def write(self) -> None:
        """Write which tenants have open lines, and wake the claims of their streams."""
        opened, self._opened = dict.fromkeys(self._opened), []
        if not opened:
            return
        self._connection.change(limit_statements.ADD_TENANTS, (listed(opened),))
        self._transaction.ready.update(self._streams({stream for stream, _, _ in opened}))

    def _streams(self, numbers: Iterable[int]) -> list[Stream]:
        """A damaged line may name a stream that does not exist."""
        rows = [self._connection.row(limit_statements.READ_STREAM, (number,)) for number in numbers]
        return [Stream(*row) for row in rows if row]

    # --- time ---------------------------------------------------------------------------------------------

    def _set_timer(self, budget: Budget, stream: int) -> None:
        if not budget.set_timer(self._transaction.now_us):
            return
        first = self._connection.row(limit_statements.FIRST_TIMER, (self._transaction.namespace,))
        if first is None or budget.timer_us < first[3]:
            for named in self._streams([stream]):
                self._transaction.announce(DueNotice(named))

    def look(self) -> None:
        """Open lines for the tokens that came back."""
        now_us = self._transaction.now_us
        while due := due_timer(self._connection, self._transaction.namespace, now_us):
            number, key = due
            (budget,) = self.budgets.of(Constraints((key,)))
            if budget.number != number:  # a damaged row: it is not found under its name
                self._connection.change(limit_statements.STOP_TIMER, (number,))
                continue
            budget.timer_us = 0
            tokens = budget.tokens(now_us)
            for stream in self._blocked_streams(budget):
                for _ in range(tokens):
                    if not self._open_first(budget, stream):
                        break
                if self._connection.value(limit_statements.IS_BLOCKING, (budget.number, stream)):
                    self._set_timer(budget, stream)
            self.write()
            self.budgets.write()


def drop_constraints(connection: Connection, ended: Iterable[int]) -> None:
    """Forget constraints of messages that have ended, unless other messages have them."""
    if numbers := list(ended):
        connection.change(limit_statements.DROP_CONSTRAINTS, (listed(numbers),))


def due_timer(connection: Connection, namespace: str, now_us: int) -> tuple[int, LimitKey] | None:
    """The budget for which tokens must be looked for now, and its number."""
    first = connection.row(limit_statements.FIRST_TIMER, (namespace,))
    if first is None:
        return None
    number, name, key, timer_us, next_us, figures = first
    is_due = is_timer_due(timer_us, next_us, figures_of(figures), now_us)
    return (number, LimitKey(name, key)) if is_due else None


def next_timer_us(connection: Connection, namespace: str) -> int | None:
    first = connection.row(limit_statements.FIRST_TIMER, (namespace,))
    return first[3] if first else None


def numbers_of(transaction: Transaction, stream: int, several: Iterable[str]) -> dict[str, int]:
    """The numbers of constraints, by what is stored of them. New ones get a number."""
    wanted = listed(dict.fromkeys(several))
    transaction.connection.change(limit_statements.ADD_CONSTRAINTS, (stream, wanted))
    return dict(unlisted(transaction.connection.value(limit_statements.FIND_CONSTRAINTS, (stream, wanted))))
