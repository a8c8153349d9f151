"""What a claim has taken and not written yet: messages, and what follows for lines and tenants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from headrace.stores.postgres.rows.columns import columns
from headrace.stores.sql.limits.taking import OpenLine, TakingRound

from .open_lines import OpenPlace

#: Where the row of a message is, its number, and the number of its stream.
FoundMessage = tuple[str, int, int]


class TakenMessages:
    def __init__(self) -> None:
        self.messages: list[FoundMessage] = []
        self._lines: list[OpenLine] = []
        self._blocked: list[tuple[int, int]] = []  # lines, and the budgets that block them
        self._turns: list[tuple[str, int]] = []  # where the rows of tenants are, and their turns
        self._empty: list[str] = []  # tenants that may have no open line any more

    def __bool__(self) -> bool:
        return bool(self.messages or self._lines or self._blocked or self._turns or self._empty)

    def add(self, found: OpenPlace, round: TakingRound) -> None:
        self.messages += [(message.tid, message.seq, found.stream) for message in round.taken]
        self._lines += round.changed.values()
        self._blocked += [(line.line, budget.number) for line, budget in round.blocked]
        if len(round.tenants) > 1:
            self._turns += [(found.tids[each.name], each.turn) for each in round.tenants if each.has_moved]
        self._empty += [found.tids[each.name] for each in round.tenants if not each.lines]

    def forget_lines(self, lines: Sequence[OpenLine]) -> None:
        self._lines = [line for line in self._lines if line not in lines]

    def values(self) -> list[list[object]]:
        """The values of `limit_statements.LEASE` for this."""
        tids_and_seqs = [message[:2] for message in self.messages]
        counts = Counter([stream for _, _, stream in self.messages])
        lines = [(line.line, line.taken, *_first(line)) for line in self._lines]
        return [
            *_columns(tids_and_seqs, 2),
            *_columns(list(counts.items()), 2),
            *_columns(lines, 4),
            *_columns(self._blocked, 2),
            *_columns(self._turns, 2),
            list(self._empty),
        ]


def _first(line: OpenLine) -> tuple[int | None, int | None]:
    return (line.messages[0].at_us, line.messages[0].seq) if line.messages else (None, None)


def _columns(rows: Sequence[Sequence[object]], count: int) -> list[list[object]]:
    return columns(rows) if rows else [[] for _ in range(count)]
