"""The kinds of unique keys: how long a message holds its key."""

from __future__ import annotations

import pytest

from headrace.core.messages.message import UniqueKey
from headrace.core.runtime.clock import microseconds
from headrace.testing.contract.kit.stand import Stand

FINISHED = UniqueKey("report:7")
STARTED = UniqueKey("report:7", "started")
ELAPSED = UniqueKey("report:7", "elapsed", microseconds(60))
every_kind = pytest.mark.parametrize("unique", [FINISHED, STARTED, ELAPSED], ids=lambda unique: unique.until)


async def owner_of(stand: Stand, unique: UniqueKey) -> str:
    """Whose duplicate a message with this key is."""
    (answer,) = await stand.append(stand.message(unique=unique))
    assert answer.verdict == "duplicate"
    return answer.id
