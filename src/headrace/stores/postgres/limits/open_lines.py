"""What `headrace.open_claim` and `headrace.load_lines` answer: open lines with their first messages and their
budgets."""

from __future__ import annotations

from collections import deque

import msgspec

from headrace.core.messages.constraints import Constraints, LimitKey
from headrace.stores.sql.limits.budgets import Budget, figures_of
from headrace.stores.sql.limits.taking import OpenLine, OpenTenant, WaitingMessage

from .budgets import PostgresBudgets


class ClaimableStream(msgspec.Struct, array_like=True):
    """A stream that is not paused. `places`: where lines are open; None: it held no lines."""

    position: int  # in the claim, from 1
    number: int
    held_children: bool
    has_plain: bool  # queued messages without constraints
    places: list[int] | None


class LoadedLine(msgspec.Struct, array_like=True):
    """An open line of a tenant; None: the tenant has none."""

    tenant: str
    turn: int
    tid: str  # of the tenant
    line: int | None
    number: int | None
    constraints: Constraints | None
    waiting: int | None
    first_us: int | None
    first_seq: int | None
    messages: list[WaitingMessage] | None


class LoadedBudget(msgspec.Struct, array_like=True):
    number: int
    name: str
    key: str
    running: int
    next_us: int
    timer_us: int
    blocks: bool


class LoadedPlace(msgspec.Struct):
    """`tenants`, `messages`: how many were asked for."""

    stream: int
    place: int
    tenants: int
    messages: int
    last_turn: int
    lines: list[LoadedLine]
    budgets: list[LoadedBudget] | None
    figures: dict[str, msgspec.Raw] | None  # another program may have written some that cannot be read


decode_streams = msgspec.json.Decoder(list[ClaimableStream]).decode
decode_place = msgspec.json.Decoder(LoadedPlace).decode


class OpenPlace:
    """The open lines of a place, as the plans want them."""

    def __init__(self, loaded: LoadedPlace) -> None:
        self.stream, self.place = loaded.stream, loaded.place
        self.last_turn = loaded.last_turn
        self.tids: dict[str, str] = {}  # where the rows of the tenants are
        self._tenants: dict[str, OpenTenant] = {}
        for row in loaded.lines:
            self._add(row)
        self.is_part = len(self._tenants) == loaded.tenants  # there may be more tenants
        per_tenant = loaded.messages // len(self._tenants) + 2
        for tenant in self._tenants.values():
            tenant.is_part = len(tenant.lines) == per_tenant

    @property
    def tenants(self) -> list[OpenTenant]:
        return list(self._tenants.values())

    def _add(self, row: LoadedLine) -> None:
        tenant = self._tenants.get(row.tenant)
        if tenant is None:
            tenant = self._tenants[row.tenant] = OpenTenant(row.tenant, row.turn)
            self.tids[row.tenant] = row.tid
        if row.line is None or row.number is None or row.constraints is None:
            return
        first = row.first_us or 0, row.first_seq or 0
        messages = deque(row.messages or ())
        line = OpenLine(row.line, row.number, row.constraints, row.waiting or 0, first, messages)
        tenant.add(line)


def add_budgets(budgets: PostgresBudgets, loaded: LoadedPlace) -> None:
    figures = {name: figures_of(bytes(stored)) for name, stored in (loaded.figures or {}).items()}
    for each in loaded.budgets or ():
        key = LimitKey(each.name, each.key)
        budget = Budget(
            *(each.number, key, each.running, each.next_us, each.timer_us, figures.get(each.name)),
            each.blocks,
        )
        budgets.add_loaded(budget)
