"""Ids: made by the client, sortable by time, recognisable when derived."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.messages.ids import ALPHABET, derived_id, is_given_id, new_id


def as_uuid(id: str) -> uuid.UUID:
    number = 0
    for character in id:
        number = number * 32 + ALPHABET.index(character)
    return uuid.UUID(int=number)


def test_an_id_is_26_characters_of_lower_case_crockford_base32() -> None:
    id = new_id()
    assert len(id) == 26
    assert set(id) <= set(ALPHABET)
    assert not set(ALPHABET) & set("ilou")


def test_an_id_is_a_uuid_of_version_7_that_holds_the_time() -> None:
    before = time.time_ns() // 1_000_000
    found = as_uuid(new_id())
    after = time.time_ns() // 1_000_000
    assert found.version == 7
    assert found.variant == uuid.RFC_4122
    assert before <= found.int >> 80 <= after


def test_ids_of_later_milliseconds_sort_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    nanoseconds = iter(range(1_700_000_000_000_000_000, 1_700_000_000_100_000_000, 1_000_000))
    monkeypatch.setattr(time, "time_ns", lambda: next(nanoseconds))
    ids = [new_id() for _ in range(100)]
    assert ids == sorted(ids)


def test_ids_of_one_millisecond_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_000_000_000)
    assert len({new_id() for _ in range(10_000)}) == 10_000


def test_a_derived_id_is_the_same_for_the_same_parts() -> None:
    assert derived_id("nightly", "2030-01-01") == derived_id("nightly", "2030-01-01")
    assert len(derived_id("nightly")) == 26


@given(st.lists(st.text(max_size=8), max_size=4), st.lists(st.text(max_size=8), max_size=4))
def test_other_parts_derive_another_id(one: list[str], other: list[str]) -> None:
    if one != other:
        assert derived_id(*one) != derived_id(*other)


def test_where_one_part_ends_and_the_next_begins_makes_a_difference() -> None:
    assert derived_id("ab", "c") != derived_id("a", "bc")


@pytest.mark.parametrize("id", ["order-7", "a", "x" * 200, "a:b/c@d.e", "7"])
def test_users_may_choose_printable_ids(id: str) -> None:
    assert is_given_id(id)


def test_an_id_that_was_made_may_be_chosen_again() -> None:
    assert is_given_id(new_id())
    assert is_given_id(derived_id("nightly", "2030-01-01"))


@pytest.mark.parametrize("id", ["", "with space", "x" * 201, "{tag}", "new\nline", "grüße", "tab\t", "end\n"])
def test_users_may_not_choose_ids_that_stores_trip_over(id: str) -> None:
    assert not is_given_id(id)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_does_not_use_what_its_parent_has_drawn() -> None:
    program = (
        "import os\n"
        "from headrace.core.messages.ids import new_id\n"
        "new_id()\n"
        "child = os.fork()\n"
        "os.write(1, ' '.join(new_id()[10:] for _ in range(20)).encode() + b' ')\n"
        "if child:\n"
        "    os.waitpid(child, 0)\n"
    )
    output = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True).stdout
    assert len(set(output.split())) == 40
