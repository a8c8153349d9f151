"""Decides which messages of open lines a claim takes. Tenants take turns. Each message takes its slots and
its tokens."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice

import msgspec

from headrace.core.messages.constraints import Constraints

from .budgets import Budget, LoadedBudgets
from .choosing import LineRequest


class WaitingMessage(msgspec.Struct, frozen=True, array_like=True):
    seq: int
    size: int  # of its body, in bytes
    at_us: int
    tid: str = ""  # where PostgreSQL has its row


class OpenLine(msgspec.Struct):
    line: int
    number: int  # of its constraints
    constraints: Constraints
    waiting: int  # how many are left
    first: tuple[int, int]  # time and number of its first message
    messages: deque[WaitingMessage] = msgspec.field(default_factory=deque)  # those that are loaded
    taken: int = 0  # how many were taken; they are still in their place

    def __lt__(self, other: OpenLine) -> bool:
        return self.first < other.first


class OpenTenant(msgspec.Struct):
    name: str
    turn: int
    lines: list[OpenLine] = msgspec.field(default_factory=list)  # a heap
    has_moved: bool = False
    is_part: bool = False  # it may have more open lines

    def add(self, line: OpenLine) -> None:
        heapq.heappush(self.lines, line)


class TakingRound:
    """Takes messages of one place in turn, until one of the loaded parts is used up. The next round loads
    again. `is_part`: there may be more tenants. `last_turn`: the last turn of all tenants."""

    def __init__(
        self,
        request: LineRequest,
        tenants: Sequence[OpenTenant],
        budgets: LoadedBudgets,
        *,
        is_part: bool,
        last_turn: int,
    ) -> None:
        self._request = request
        self._place = request.place
        self._room = request.room
        self._waiting = deque(tenants)
        self._budgets = budgets
        self._is_part = is_part
        self._last_turn = last_turn
        self._wanting: tuple[OpenTenant, OpenLine] | None = None
        self.tenants = tenants
        self.taken: list[WaitingMessage] = []
        self.constraints: dict[int, Constraints] = {}  # of each message that was taken
        self.changed: dict[int, OpenLine] = {}  # lines that lost messages, or had none
        self.blocked: list[tuple[OpenLine, Budget]] = []  # lines that asked a budget in vain

    @property
    def left(self) -> int:
        """How many may be taken still."""
        return self._request.limit - len(self.taken)

    @property
    def is_last(self) -> bool:
        """Whether every open line was tried, and none is left."""
        return not (self._is_part or any([each.lines or each.is_part for each in self.tenants]))

    @property
    def ending(self) -> list[OpenLine]:
        """The changed lines whose first message is not known. They may have none."""
        return [line for line in self.changed.values() if not line.messages]

    def run(self) -> OpenLine | None:
        """None: the round is over. A line: load more of its messages, call `add_messages`, and run again."""
        self._take_many()
        while self._waiting and self.left > 0 and self._room > 0:
            tenant = self._waiting[0]
            if tenant.has_moved and self._is_part:
                return None  # a tenant that is not loaded is next
            self._waiting.popleft()
            if not tenant.lines:
                continue
            line = heapq.heappop(tenant.lines)
            self._take_one(tenant, line)
            tenant.has_moved = True
            self._last_turn += 1
            tenant.turn = self._last_turn
            self._waiting.append(tenant)
            if self._wanting:
                return line
            if tenant.is_part and not tenant.lines:
                return None  # a line that is not loaded may be next
        return None

    def _take_many(self) -> None:
        """A line that is alone needs no turns. It keeps one of the loaded messages: then the steps after this
        one are as for every line."""
        tenant = self._waiting[0] if len(self._waiting) == 1 else None
        if tenant is None or len(tenant.lines) != 1 or tenant.is_part or self._is_part:
            return
        line = tenant.lines[0]
        most = min(self._fitting(line), len(line.messages) - 1)
        count = self._budgets.acquire_many(line.constraints, most) if most > 0 else 0
        if count:
            self._note_taken(line, [line.messages.popleft() for _ in range(count)])
            line.first = line.messages[0].at_us, line.messages[0].seq
            tenant.has_moved = True
            self._last_turn += 1
            tenant.turn = self._last_turn

    def _fitting(self, line: OpenLine) -> int:
        """How many messages of the line the claim has room for."""
        room, count = self._room, 0
        for message in islice(line.messages, self.left):
            if room <= 0:
                break
            room -= message.size
            count += 1
        return count

    def _note_taken(self, line: OpenLine, taken: Sequence[WaitingMessage]) -> None:
        self.taken += taken
        self.constraints |= dict.fromkeys([message.seq for message in taken], line.constraints)
        self._room -= sum([message.size for message in taken])
        line.waiting -= len(taken)
        line.taken += len(taken)
        self.changed[line.line] = line

    def _take_one(self, tenant: OpenTenant, line: OpenLine) -> None:
        """Take the first message of a line, if its limits allow."""
        if not line.messages:
            self.changed[line.line] = line
            return
        refusal = self._budgets.acquire(line.constraints)
        if refusal is not None:
            self.blocked.append((line, refusal))
            return
        self._note_taken(line, [line.messages.popleft()])
        if not line.messages and line.waiting > 0 and self.left > 0:
            self._wanting = tenant, line
        else:
            self._put_back(tenant, line)

    def add_messages(self, messages: Iterable[WaitingMessage]) -> None:
        """More messages of the line for which `run` asked."""
        assert self._wanting is not None
        (tenant, line), self._wanting = self._wanting, None
        line.messages.extend(messages)
        self._put_back(tenant, line)

    def _put_back(self, tenant: OpenTenant, line: OpenLine) -> None:
        if line.messages:
            line.first = line.messages[0].at_us, line.messages[0].seq
            tenant.add(line)
        elif line.waiting > 0:
            tenant.is_part = True  # it stays open, and the next round loads it
