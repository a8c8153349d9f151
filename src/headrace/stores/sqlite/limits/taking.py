"""Takes messages with constraints from open lines: loads them, asks the plan, and writes what it decided."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headrace.core.messages.constraints import Constraints
from headrace.stores.sql.limits.budgets import constraints_of
from headrace.stores.sql.limits.choosing import LineRequest, Taken
from headrace.stores.sql.limits.taking import OpenLine, OpenTenant, TakingRound, WaitingMessage
from headrace.stores.sqlite.statements import limit_statements
from headrace.stores.sqlite.statements.bulk_binding import listed, unlisted
from headrace.stores.sqlite.threads.transaction import Transaction

from .lines import LineTable


class LineTaking:
    """`lease` marks messages as running, so that the next round does not find them."""

    def __init__(self, transaction: Transaction, lease: Callable[[list[int]], None]) -> None:
        self._connection = transaction.connection
        self._lease = lease
        self._lines = LineTable(transaction)
        self.constraints: dict[int, Constraints] = {}  # of each message that was taken

    def take(self, request: LineRequest) -> list[Taken]:
        """The messages that were taken."""
        taken: list[Taken] = []
        fruitless: object = None
        while request.limit > 0 and request.room > 0:
            round = self._load(request)
            if round is None:
                break
            while (line := round.run()) is not None:
                most = line.taken + round.left + 1
                round.add_messages(self._messages([line], request.place, most)[line.number][line.taken :])
            self._write(request, round)
            if not round.taken and not round.blocked:
                tried = [each.name for each in round.tenants], list(round.changed)
                if tried == fruitless:
                    break  # damaged rows: what a round without messages removes is still there
                fruitless = tried
            taken += [(message.seq, message.size) for message in round.taken]
            size = sum([message.size for message in round.taken])
            request = request._replace(limit=round.left, room=request.room - size)
        return taken

    def finish(self) -> None:
        self._lines.budgets.write()

    def _load(self, request: LineRequest) -> TakingRound | None:
        """Some tenants with some of their open lines; None: no line is open."""
        most = request.limit + 1
        place = (request.stream, request.place)
        found = unlisted(self._connection.value(limit_statements.FIRST_TENANTS, (*place, most)))
        if not found:
            return None
        tenants = {name: OpenTenant(name, turn) for name, turn in found}
        per_tenant = request.limit // len(tenants) + 2
        bindings = (*place, listed(tenants), per_tenant)
        lines: list[OpenLine] = []
        for tenant, line, number, content, waiting, first_us, first_seq in unlisted(
            self._connection.value(limit_statements.OPEN_LINES, bindings)
        ):
            lines.append(OpenLine(line, number, constraints_of(content), waiting, (first_us, first_seq)))
            tenants[tenant].add(lines[-1])
        for each in tenants.values():
            each.is_part = len(each.lines) == per_tenant
        if lines:
            messages = self._messages(lines, request.place, request.limit // len(lines) + 2)
            for line in lines:
                line.messages.extend(messages[line.number])
        self._lines.budgets.load(line.constraints for line in lines)
        last = self._connection.value(limit_statements.LAST_TURN, place) or 0
        return TakingRound(
            *(request, list(tenants.values()), self._lines.budgets),
            is_part=len(tenants) == most,
            last_turn=last,
        )

    def _messages(self, lines: list[OpenLine], place: int, most: int) -> dict[int, list[WaitingMessage]]:
        """The first messages of each of these lines."""
        bindings = (listed(line.number for line in lines), place, most)
        found: dict[int, list[WaitingMessage]] = {line.number: [] for line in lines}
        for number, seq, at_us, size in unlisted(
            self._connection.value(limit_statements.FIRST_MESSAGES, bindings)
        ):
            found[number].append(WaitingMessage(seq, size or 0, at_us))
        return found

    def _write(self, request: LineRequest, round: TakingRound) -> None:
        if round.taken:
            self._lease([message.seq for message in round.taken])
        self.constraints |= round.constraints
        for line, budget in round.blocked:
            self._lines.block(line.line, request.stream, line.constraints, budget)
        self._lines.change(round.changed.values())
        self._lines.recount({(line.number, request.place): -line.taken for line in round.ending})
        self._lines.write()
        place = (request.stream, request.place)
        turns = list(_turns(round))
        if turns and len(round.tenants) > 1:
            self._connection.change(limit_statements.WRITE_TURNS, (*place, listed(turns)))
        if empty := [each.name for each in round.tenants if not each.lines]:
            self._connection.change(limit_statements.DROP_TENANTS, (*place, listed(empty)))


def _turns(round: TakingRound) -> Iterator[tuple[str, int]]:
    for tenant in round.tenants:
        if tenant.has_moved:
            yield tenant.name, tenant.turn
