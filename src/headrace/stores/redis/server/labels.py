"""Reads names that the server keeps. A name that is no text is not headrace's, and is left out."""

from __future__ import annotations

from collections.abc import Iterable

from .server import RedisServer


async def labels_of(store: RedisServer) -> list[str]:
    """The labels of all streams (`label_of`)."""
    await store.learn_tags()
    return readable_texts(await store.command("SMEMBERS", store.keys.streams))


def readable_texts(names: Iterable[bytes]) -> list[str]:
    return sorted(name.decode() for name in names if _is_text(name))


def _is_text(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True
