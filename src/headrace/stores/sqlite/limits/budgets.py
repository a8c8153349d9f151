"""The budgets that one step uses: reads them together, and writes them once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headrace.core.messages.constraints import Constraints, LimitKey
from headrace.stores.sql.limits.budgets import Budget, LoadedBudgets, figures_of
from headrace.stores.sqlite.statements import limit_statements
from headrace.stores.sqlite.statements.bulk_binding import listed, unlisted
from headrace.stores.sqlite.threads.transaction import Transaction

#: The number of a budget that has no row.
NO_ROW: Final = 0


class Budgets(LoadedBudgets):
    def __init__(self, transaction: Transaction) -> None:
        super().__init__(transaction.now_us)
        self._transaction = transaction
        self._stored: dict[int, tuple[int, int, int]] = {}  # what the rows hold

    def load(self, several: Iterable[Constraints]) -> None:
        """Read the budgets of these constraints."""
        keys = self.missing(several)
        if not keys:
            return
        bindings = (self._transaction.namespace, listed((key.limit, key.key) for key in keys))
        for number, name, key, running, next_us, timer_us, figures, blocks in unlisted(
            self._transaction.connection.value(limit_statements.READ_BUDGETS, bindings)
        ):
            limit, figures = LimitKey(name, key), figures_of(figures)
            budget = Budget(number or NO_ROW, limit, running, next_us, timer_us, figures, bool(blocks))
            self.add(budget)
            if number is not None:  # of a damaged row it may be the one that stands for no row
                self._stored[self.number_of(budget)] = _changing(budget)

    def of(self, constraints: Constraints) -> list[Budget]:
        try:
            return super().of(constraints)
        except KeyError:
            self.load([constraints])
            return super().of(constraints)

    def number_of(self, budget: Budget) -> int:
        """The number of its row. A budget without a row gets one."""
        if budget.number == NO_ROW:
            row = (self._transaction.namespace, budget.key.limit, budget.key.key)
            budget.number = self._transaction.connection.value(limit_statements.ADD_BUDGET, row)
            self._stored[budget.number] = 0, 0, 0
        return budget.number

    def write(self) -> None:
        """Write what has changed. A budget that has nothing to keep loses its row."""
        new, kept, idle = self._divided()
        self._add(new)
        self._change(kept)
        self._drop(idle)
        self._budgets.clear()
        self._stored.clear()

    def _divided(self) -> tuple[list[Budget], list[Budget], list[Budget]]:
        """Budgets that need a row, budgets to change, and budgets that have nothing to keep. If one of these
        may block lines, it is changed, too: then the statement may not drop it."""
        new: list[Budget] = []
        kept: list[Budget] = []
        idle: list[Budget] = []
        for budget in self._budgets.values():
            is_idle = budget.running <= 0 and budget.next_us <= self._now_us
            if budget.number == NO_ROW:
                new += [] if is_idle else [budget]
            else:
                idle += [budget] if is_idle else []
                kept += [budget] if budget.blocks or not is_idle else []
        return new, kept, idle

    def _add(self, budgets: list[Budget]) -> None:
        if budgets:
            rows = [(each.key.limit, each.key.key, *_changing(each)) for each in budgets]
            bindings = (self._transaction.namespace, listed(rows))
            self._transaction.connection.change(limit_statements.ADD_BUDGETS, bindings)

    def _change(self, budgets: list[Budget]) -> None:
        rows = [(each.number, *_changing(each)) for each in budgets]
        changed = [row for row in rows if self._stored[row[0]] != row[1:]]
        if changed:
            self._transaction.connection.change(limit_statements.WRITE_BUDGETS, (listed(changed),))

    def _drop(self, budgets: list[Budget]) -> None:
        if budgets:
            numbers = listed(each.number for each in budgets)
            self._transaction.connection.change(limit_statements.DROP_BUDGETS, (numbers,))


def _changing(budget: Budget) -> tuple[int, int, int]:
    return budget.running, budget.next_us, budget.timer_us
