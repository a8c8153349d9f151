"""Short ways to replace messages."""

from __future__ import annotations

from typing import Any

import msgspec

from headrace.core.messages.message import Message
from headrace.core.records.answers import Answer
from headrace.testing.contract.kit.stand import Stand

from .kinds import STARTED


def replacing(stand: Stand, *, fresh: bool = True, **options: Any) -> Message:
    message = stand.message(unique=STARTED, **options)
    return msgspec.structs.replace(message, on_duplicate="replace", fresh=fresh)


async def replace(stand: Stand, id: str, **options: Any) -> None:
    """Replace the message `id`, which waits."""
    assert await stand.append(replacing(stand, **options)) == [Answer(id, "replaced")]
