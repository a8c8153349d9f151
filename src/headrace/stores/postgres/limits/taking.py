"""Claims from streams that have messages with constraints: loads open lines, asks the plans, and writes what
they decided. Most claims need two statements: one that loads, and one that writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from headrace.core.messages.claim import Claim
from headrace.core.messages.constraints import Constraints
from headrace.core.messages.message import Stream
from headrace.core.rules.lanes import is_child_work_first
from headrace.stores.postgres.rows.columns import columns
from headrace.stores.postgres.session.connection import Row
from headrace.stores.postgres.session.transaction import PostgresTransaction, new_number
from headrace.stores.postgres.statements import limit_statements
from headrace.stores.postgres.verbs.claim import claim_of
from headrace.stores.postgres.verbs.settle import settle
from headrace.stores.sql.claim_query import ClaimQuery
from headrace.stores.sql.lanes import CHILD, SUSPECT
from headrace.stores.sql.limits.choosing import ConstrainedChoice, LineRequest, LineStream, Ready, Taken
from headrace.stores.sql.limits.taking import OpenLine, TakingRound, WaitingMessage
from headrace.stores.sql.settling import bury_of_another_queue

from .lines import PostgresLines
from .open_lines import ClaimableStream, LoadedPlace, OpenPlace, add_budgets, decode_place, decode_streams
from .taken import FoundMessage, TakenMessages

#: Messages to load at once. Their limits may allow only a few of them.
MOST_LOADED: Final = 100


class LeasedMessage(NamedTuple):
    """The answer of `limit_statements.LEASE`."""

    stream: int
    seq: int
    id: str
    body: bytes | None
    state: bytes | None
    priority: int
    expires_us: int
    child: bool
    tid: bytes


class LinedClaim:
    """One claim. `token`: the number of its claims."""

    def __init__(self, transaction: PostgresTransaction, query: ClaimQuery) -> None:
        self._transaction = transaction
        self._query = query
        self._lines = PostgresLines(transaction)
        self.token = new_number()
        self.constraints: dict[int, Constraints] = {}  # of each message that was taken from a line
        self._taken = TakenMessages()  # not written yet
        self._loaded: LoadedPlace | None = None
        self._leased: dict[int, LeasedMessage] = {}
        self._open: set[tuple[int, int]] = set()  # streams and places with open lines

    async def run(self) -> list[Claim]:
        """The messages, in their order."""
        await self._transaction.lock_lines()
        streams = await self._open_claim()
        ready, plain = await self._ready(streams)
        lined = [LineStream(each.number, each.held_children) for each in streams if each.places is not None]
        chosen = await self._choose(ConstrainedChoice(lined, self._query, ready))
        self._taken.messages += [plain[seq] for seq in chosen if seq in plain]
        await self._write(budgets=True)
        wanted = self._query.streams_in_turn
        named = {each.number: wanted[each.position - 1] for each in streams}
        found = [self._leased[seq] for seq in chosen]
        if misplaced := [self._claim_of(wanted[0], each) for each in found if each.stream not in named]:
            await settle(self._transaction, [bury_of_another_queue(claim) for claim in misplaced])
        return [self._claim_of(named[each.stream], each) for each in found if each.stream in named]

    def _claim_of(self, stream: Stream, leased: LeasedMessage) -> Claim:
        return claim_of(
            *(stream, self.token, leased.stream, leased.seq, leased.id, leased.body, leased.state),
            *(leased.priority, leased.expires_us, leased.child, self._transaction.now_us, leased.tid),
            self.constraints.get(leased.seq),
        )

    async def _open_claim(self) -> list[ClaimableStream]:
        query = self._query
        wanted = query.streams_in_turn
        most = min(query.limit, query.constrained)
        values = (
            self._transaction.namespace,
            [stream.kind for stream in wanted],
            [stream.name for stream in wanted],
            [SUSPECT, *query.lanes],
            is_child_work_first(query.turn),
            query.suspects > 0,
            query.children > 0,
            most + 1,
            min(most, MOST_LOADED),
        )
        [(found, loaded)] = await self._transaction.rows(limit_statements.OPEN_CLAIM, values)
        streams = decode_streams(found) if found else []
        self._loaded = decode_place(loaded) if loaded else None
        self._open = {(each.number, place) for each in streams for place in each.places or ()}
        return streams

    async def _ready(self, streams: Sequence[ClaimableStream]) -> tuple[list[Ready], dict[int, FoundMessage]]:
        """The messages without constraints, lane by lane, and where they are."""
        query = self._query
        most = {False: query.limit, True: min(query.limit, query.children)}
        children_first = is_child_work_first(query.turn)
        places = [
            (
                lane - (CHILD if child else 0),
                min(most[child], query.suspects) if lane == SUSPECT else most[child],
            )
            for lane in (SUSPECT, *query.lanes)
            for child in ((True, False) if children_first else (False, True))
        ]
        wanted = [place for place in places if place[1] > 0]
        searched = [stream.number for stream in streams if stream.has_plain]
        if not wanted or not searched:
            return [], {}
        values = (*columns(wanted), searched, query.limit)
        rows = await self._transaction.rows(limit_statements.LOCK_READY, values)
        return _bounded(rows, query), {seq: (tid, seq, stream) for seq, _, _, stream, tid in rows}

    async def _choose(self, choice: ConstrainedChoice) -> list[int]:
        steps = choice.run()
        taken: list[Taken] | None = None
        while True:
            try:
                request = next(steps) if taken is None else steps.send(taken)
            except StopIteration as done:
                chosen: list[int] = done.value
                return chosen
            taken = await self._take(request)

    # --- lines --------------------------------------------------------------------------------------------

    async def _take(self, request: LineRequest) -> list[Taken]:
        taken: list[Taken] = []
        place = request[:2]
        while request.limit > 0 and request.room > 0 and place in self._open:
            found = await self._load(request)
            if found is None:
                self._open.discard(place)
                break
            round = TakingRound(
                request, found.tenants, self._lines.budgets, is_part=found.is_part, last_turn=found.last_turn
            )
            while (line := round.run()) is not None:
                values = (line.number, request.place, line.taken + round.left + 1)
                rows = await self._transaction.rows(limit_statements.FIRST_MESSAGES, values)
                round.add_messages([WaitingMessage(*row) for row in rows[line.taken :]])
            if round.is_last:
                self._open.discard(place)
            await self._keep(found, round)
            taken += [(message.seq, message.size) for message in round.taken]
            size = sum([message.size for message in round.taken])
            request = request._replace(limit=round.left, room=request.room - size)
        return taken

    async def _load(self, request: LineRequest) -> OpenPlace | None:
        """Some tenants with some of their open lines; None: no line is open."""
        loaded, self._loaded = self._loaded, None
        if loaded is None or (loaded.stream, loaded.place) != request[:2]:
            await self._write()
            stream, place, limit, _ = request
            values = (self._transaction.namespace, stream, place, limit + 1, min(limit, MOST_LOADED))
            answer = await self._transaction.value(limit_statements.LOAD, values)
            if answer is None:
                return None
            loaded = decode_place(answer)
        add_budgets(self._lines.budgets, loaded)
        return OpenPlace(loaded)

    async def _keep(self, found: OpenPlace, round: TakingRound) -> None:
        """Note what a round decided. It is written at once when other lines may open now."""
        self.constraints |= round.constraints
        for _, budget in round.blocked:
            await self._lines.budgets.add_row(budget)
            budget.blocks = True
            await self._lines.set_timer(budget, found.stream)
        self._taken.add(found, round)
        refused = [line for line, _ in round.blocked]
        ending = round.ending
        if not self._may_offer([*refused, *ending]):
            return
        self._taken.forget_lines(ending)
        await self._write()
        await self._lines.recount({(line.number, found.place): -line.taken for line in ending})
        await self._lines.offer_to([(line.constraints, found.stream) for line in refused])
        self._open |= {(stream, place) for stream, place, _ in self._lines.opened}
        await self._lines.write()

    def _may_offer(self, lines: Sequence[OpenLine]) -> bool:
        budgets = self._lines.budgets
        return any(self._lines.can_offer(budget) for line in lines for budget in budgets.of(line.constraints))

    async def _write(self, *, budgets: bool = False) -> None:
        """Lease what was taken, and write what follows, so that the next round finds it."""
        rows = self._lines.budgets.rows() if budgets else []
        if not (self._taken or rows):
            return
        transaction = self._transaction
        values = (
            *(transaction.now_us, self.token, self._query.consumer, *self._taken.values()),
            *(transaction.namespace, *(columns(rows) or [[]] * 6)),
        )
        leased = await transaction.rows(limit_statements.LEASE, values)
        self._leased.update((row[1], LeasedMessage(*row)) for row in leased)
        self._taken = TakenMessages()


def _bounded(rows: Sequence[Row], query: ClaimQuery) -> list[Ready]:
    """At most as much child work as is wanted in all lanes, and as many suspects."""
    found: list[Ready] = []
    children, suspects = query.children, query.suspects
    for seq, size, place, _, _ in rows:
        is_suspect = place in (SUSPECT, SUSPECT - CHILD)
        if (place < 0 and children <= 0) or (is_suspect and suspects <= 0):
            continue
        children -= place < 0
        suspects -= is_suspect
        found.append((seq, size, place))
    return found


async def claim_with_lines(transaction: PostgresTransaction, query: ClaimQuery) -> list[Claim]:
    return await LinedClaim(transaction, query).run()
