"""What a message takes in a store is what the documentation says, and what is over takes nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.memory import KINDS, measure
from tests.support.servers import require

pytestmark = pytest.mark.more

DOCS = Path(__file__).parents[3] / "docs/concepts"

#: The name of a row of the documentation, where it is another than that of the kind.
NAMES = {
    "retrying": "retrying, failed once",
    "dead, traceback of 1000": "dead, with a traceback of 1,000",
    "succeeded, result of 20 kept": "succeeded, a result of 20 kept",
    "cancelled": "cancelled or expired",
    "event in a topic, held by a group": "the same, held by a group",
    "event in a topic, handled": "the same, handled by all groups",
}
MESSAGES = [kind for kind, (_, number) in KINDS.items() if number == 0]

#: The page of a store, and the column of its table.
STORES = {"sqlite": ("sqlite.md", 1), "redis-7.0": ("redis.md", 2)}


def documented(store: str, kind: str) -> int:
    page, column = STORES[store]
    name = re.escape(NAMES.get(kind, kind))
    table = (DOCS / page).read_text().partition("benchmarks.memory")[2]
    [row, *_] = re.findall(rf"^\| {name} \|.*$", table, re.MULTILINE)
    return int(row.split("|")[1 + column].strip().replace(",", ""))


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("kind", MESSAGES)
async def test_a_message_takes_what_is_documented(store: str, kind: str) -> None:
    if store != "sqlite":
        require(store)
    # Fewer than for the table: what grows by doubling is up to a fifth off.
    size = await measure(store, KINDS[kind][0], 4000)
    assert size == pytest.approx(documented(store, kind), rel=0.25, abs=10)
