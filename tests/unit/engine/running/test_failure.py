"""Errors as text."""

from __future__ import annotations

import pytest

from headrace.core.messages.message import FRESH, TrailEntry, encode_state
from headrace.core.messages.outcome import Failure
from headrace.engine.running.failure import ERROR_LENGTH, TRACEBACK_LENGTH, failure_of


class OutOfStock(Exception):
    pass


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


def raised(error: BaseException) -> Failure:
    try:
        raise error
    except BaseException as caught:
        return failure_of(caught)


def test_a_builtin_error_is_called_by_its_plain_name() -> None:
    failure = raised(ValueError("no such row"))
    assert (failure.error_type, failure.error) == ("ValueError", "no such row")


def test_any_other_is_called_with_its_module() -> None:
    assert raised(OutOfStock()).error_type == f"{__name__}.OutOfStock"


def test_the_traceback_ends_with_the_error_and_shows_the_line() -> None:
    failure = raised(ValueError("no such row"))
    assert failure.traceback.rstrip().endswith("ValueError: no such row")
    assert "raise error" in failure.traceback


def test_a_cause_is_shown() -> None:
    error = ValueError("no such row")
    error.__cause__ = KeyError("row")
    assert "KeyError: 'row'" in raised(error).traceback


def test_a_group_shows_its_members() -> None:
    failure = raised(ExceptionGroup("two", [ValueError("one"), KeyError("other")]))
    assert "ValueError: one" in failure.traceback
    assert "KeyError: 'other'" in failure.traceback


def test_a_long_message_keeps_its_beginning() -> None:
    failure = raised(ValueError("begin" + "x" * 100_000))
    assert len(failure.error.encode()) == ERROR_LENGTH
    assert failure.error.startswith("begin")


def test_a_long_traceback_keeps_its_end() -> None:
    failure = raised(ValueError("x" * 100_000 + "end"))
    assert len(failure.traceback.encode()) == TRACEBACK_LENGTH
    assert failure.traceback.rstrip().endswith("end")


def test_the_lengths_are_bytes_and_no_character_is_cut() -> None:
    failure = raised(ValueError("é" * 100_000))
    assert ERROR_LENGTH - 1 <= len(failure.error.encode()) <= ERROR_LENGTH
    assert set(failure.error) == {"é", "…"}
    assert TRACEBACK_LENGTH - 1 <= len(failure.traceback.encode()) <= TRACEBACK_LENGTH
    assert set(failure.traceback.rstrip()) == {"é", "…"}


def test_an_error_that_cannot_say_what_it_is_has_a_message_all_the_same() -> None:
    assert "RuntimeError" in raised(Unspeakable()).error


@pytest.mark.parametrize("text", ["file \udcff.txt", "half \ud83d of a pair"])
def test_characters_that_no_store_can_hold_are_replaced(text: str) -> None:
    failure = raised(ValueError(text))
    encode_state(FRESH.failed(TrailEntry(1, "failed", "worker-1", failure.error + failure.traceback)))
    assert failure.error.startswith(text[:4])
