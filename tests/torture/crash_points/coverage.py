"""Which awaits of the source no part of the program passes, and why that is so."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from .awaits import all_awaits
from .probe import ReachedPoints

#: Awaits that are never reached, each with the reason.
REASONS: Final[dict[str, str]] = {
    "engine/settling/settler.py:_write_alone:settle": "the store must refuse the content of an outcome",
    "engine/settling/settler.py:_write_alone:settle#2": "the store must refuse the content of an outcome",
    "engine/streams/forgetting.py:_drop_strays:remove_stream": "two checks, minutes apart, must find a part",
    "engine/streams/splitting.py:_parts_after:streams": "a failover must have lost a layout",
    "engine/relaying/relay.py:_append_apart:append": "the store must refuse the content of a message",
    "engine/relaying/relay.py:_bury:bury": "the store must refuse a job of a user's transaction",
    "engine/relaying/relay.py:_declare:declare_topic": "an event must come from a user's transaction",
    "engine/streams/outboxes.py:bury:bury": "the store must refuse a job of a user's transaction",
    "engine/streams/outboxes.py:bury:bury#2": "the store must refuse a job of a user's transaction",
    "engine/relaying/relay.py:_call_on_death:append": "the store must refuse a job of a user's transaction",
    "engine/streams/sending.py:_replace_older:clean": "a process must have ended between two steps before",
    "engine/declared/limits.py:_has_parts:layout": "the store must be a Redis Cluster",
    "admin/steering/steering.py:_cancelled:get": "the answer of the store must be lost",
    "engine/upkeep/recovery.py:_dead_record:get": "a program must listen, and a job crash three times",
}


#: A move is ended at each of its verbs in tests/integration/moving/test_killed_moves.py.
ELSEWHERE: Final = "engine/moving/"


def never_reached(seen: Iterable[ReachedPoints]) -> list[str]:
    """The names of the awaits that none of these passed."""
    lines = {line for each in seen for line in each.lines}
    here = [each for each in all_awaits() if not each.file.startswith(ELSEWHERE)]
    return [each.name for each in here if not any(each.covers(file, line) for file, line in lines)]
