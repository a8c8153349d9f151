"""The reply of every command that changes something is lost once, under an app and its worker: every job ends
as it should, none runs twice, and the caller of `enqueue` never hears of it."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Literal

import pytest

from headrace.core.messages.ids import new_id
from headrace.stores.redis import scripts
from tests.integration.support.all_job_outcomes import Story
from tests.integration.support.lossy_proxy import Proxy
from tests.support.servers import Fleet, Server

SCRIPTS = {
    script.digest: script.name
    for script in (*vars(scripts).values(), *scripts.LIMITED.values(), *scripts.FORWARDING.values())
    if isinstance(script, scripts.Script)
}

#: What changes nothing, or only the connection.
READS = {
    *("counts", "list_messages", "get", "probe", "schedules", "unseen"),
    *("AUTH", "CLIENT", "CONFIG", "HELLO", "HGETALL", "HMGET", "INFO", "PING", "ROLE", "SCRIPT", "SELECT"),
    *("SMEMBERS", "SUBSCRIBE", "TIME", "UNSUBSCRIBE"),
}

#: What the story must bring about, so that it loses the replies of all this.
CHANGES = {
    *(
        "append",
        "append_one",
        "claim",
        "XREADGROUP",
        "release_started",
        "renew",
        "report_progress",
        "promote",
        "recover",
    ),
    *("run_again", "cancel", "wait_for_end"),
    *("discard", "run_now", "pause", "purge", "replay", "rewrite"),
    *("swap_schedules", "declare_stream", "leave"),
}

#: The same, by the history. Where every job is kept, the step that settles a job always writes its record;
#: a ring gets it so only in a quiet second.
SETTLING: dict[int | Literal["all"], set[str]] = {
    0: {"finish", "bury", "conclude"},
    "all": {"forward_finish", "forward_bury", "forward_conclude", "record_history"},
}

#: How many replies of one kind are lost at most, each in a story of its own: the first and those after it.
EACH = 5

#: Stories told at once.
AT_ONCE = 24


class Loss:
    """Which reply is to be lost, and what was asked meanwhile."""

    def __init__(self, kind: str = "", number: int = 0) -> None:
        self.kind, self.number = kind, number
        self.asked: Counter[str] = Counter()

    def __call__(self, words: list[bytes]) -> bool:
        kind = _kind_of(words)
        self.asked[kind] += 1
        return (kind, self.asked[kind]) == (self.kind, self.number)

    def __str__(self) -> str:
        return f"the reply to {self.kind} no. {self.number}"


@pytest.mark.more
@pytest.mark.timeout(600)
@pytest.mark.parametrize("history", SETTLING)
async def test_no_lost_reply_makes_a_job_run_twice_or_vanish(
    history: int | Literal["all"], servers: Fleet
) -> None:
    server = servers.get("redis-7.0")
    expected = CHANGES | SETTLING[history]
    rehearsal = Loss()
    await _tell(rehearsal, server, history)  # it also brings the scripts to the server
    rehearsal = Loss()
    await _tell(rehearsal, server, history)
    changes = {name: count for name, count in rehearsal.asked.items() if name not in READS}
    assert changes.keys() >= expected, expected - changes.keys()

    losses = [
        Loss(name, n) for name, count in sorted(changes.items()) for n in range(1, min(count, EACH) + 1)
    ]
    turns = asyncio.Semaphore(AT_ONCE)
    lost: set[str] = set()

    async def tell(loss: Loss) -> None:
        async with turns:
            if await _tell(loss, server, history):
                lost.add(loss.kind)

    told = await asyncio.gather(*map(tell, losses), return_exceptions=True)
    failures = [f"{loss}: {error!r}" for loss, error in zip(losses, told, strict=True) if error is not None]
    assert not failures, "\n".join(failures)
    assert lost >= expected, expected - lost


async def _tell(loss: Loss, server: Server, history: int | Literal["all"]) -> int:
    async with Proxy(server.port) as proxy:
        proxy.choose = loss
        story = Story(proxy.url, server.url, new_id(), history=history)
        await story.play()
        await story.check()
        return proxy.lost


def _kind_of(words: list[bytes]) -> str:
    if words[0].upper() == b"EVALSHA":
        return SCRIPTS[words[1]]
    return words[0].decode().upper()
