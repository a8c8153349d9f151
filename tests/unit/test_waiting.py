"""How tests wait: as short as possible, and with a name for what did not happen."""

from __future__ import annotations

import pytest

from tests.support.waiting import wait_until, wait_until_sync


async def test_waiting_ends_when_the_condition_is_true() -> None:
    looks = iter([False, False, True])
    await wait_until(lambda: next(looks))
    assert list(looks) == []


async def test_the_condition_may_be_async() -> None:
    looks = iter([False, True])

    async def condition() -> bool:
        return next(looks)

    await wait_until(condition)
    assert list(looks) == []


async def test_what_did_not_happen_is_named() -> None:
    with pytest.raises(AssertionError, match="not within 0 s: the moon is blue"):
        await wait_until(lambda: False, timeout=0, message="the moon is blue")


def test_without_an_event_loop_it_is_the_same() -> None:
    looks = iter([False, True])
    wait_until_sync(lambda: next(looks))
    assert list(looks) == []
    with pytest.raises(AssertionError, match="not within 0 s: the condition"):
        wait_until_sync(lambda: False, timeout=0)
