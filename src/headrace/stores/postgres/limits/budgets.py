"""The budgets that one step uses: reads them together, and writes them once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headrace.core.messages.constraints import Constraints, LimitKey
from headrace.stores.postgres.rows.columns import columns
from headrace.stores.postgres.session.transaction import PostgresTransaction
from headrace.stores.postgres.statements import limit_statements
from headrace.stores.sql.limits.budgets import Budget, LoadedBudgets, figures_of

#: Its number, its limit, its key, how many run, next_us, timer_us.
BudgetRow = tuple[int, str, str, int, int, int]


#: The number of a budget that has no row.
NO_ROW: Final = 0

#: What changes of a budget, when it is new: `_changing`.
_NEW: Final = (0, 0, 0)


class PostgresBudgets(LoadedBudgets):
    """`of` and `acquire` are for budgets that were loaded."""

    def __init__(self, transaction: PostgresTransaction) -> None:
        super().__init__(transaction.now_us)
        self._transaction = transaction
        self._stored: dict[int, tuple[int, int, int]] = {}  # what the rows hold

    async def load(self, several: Iterable[Constraints]) -> None:
        """Read the budgets of these constraints."""
        keys = self.missing(several)
        if not keys:
            return
        values = (self._transaction.namespace, *columns([(key.limit, key.key) for key in keys]))
        rows = await self._transaction.rows(limit_statements.LOAD_BUDGETS, values)
        for number, name, key, running, next_us, timer_us, figures, blocks in rows:
            limit = LimitKey(name, key)
            self.add_loaded(Budget(number, limit, running, next_us, timer_us, figures_of(figures), blocks))

    def add_loaded(self, budget: Budget) -> None:
        """A budget that the step has already stays as it is."""
        if budget.key in self._budgets:
            return
        self.add(budget)
        if budget.number != NO_ROW:
            self._stored[budget.number] = _changing(budget)

    async def add_row(self, budget: Budget) -> None:
        """Give a budget a number, if it has none: lines can be blocked by it then."""
        if budget.number == NO_ROW:
            values = (self._transaction.namespace, budget.key.limit, budget.key.key)
            budget.number = await self._transaction.value(limit_statements.ADD_BUDGET, values)
            self._stored[budget.number] = _NEW

    def rows(self) -> list[BudgetRow]:
        """The budgets to write. The step has none after that."""
        rows = [
            (budget.number, budget.key.limit, budget.key.key, *_changing(budget))
            for budget in self._budgets.values()
            if self._must_be_written(budget)
        ]
        self._budgets.clear()
        self._stored.clear()
        return rows

    async def write(self, ended: Iterable[int] = ()) -> None:
        """Write all. Constraints of messages that have ended are forgotten, unless other messages have them.
        A budget that has nothing to keep is pruned later."""
        rows = self.rows()
        if rows:
            values = (self._transaction.namespace, *columns(rows))
            await self._transaction.rows(limit_statements.WRITE_BUDGETS, values)
        if numbers := list(ended):
            await self._transaction.change(limit_statements.DROP_CONSTRAINTS, (numbers,))

    def _must_be_written(self, budget: Budget) -> bool:
        return self._stored.get(budget.number, _NEW) != _changing(budget)


def _changing(budget: Budget) -> tuple[int, int, int]:
    return budget.running, budget.next_us, budget.timer_us
