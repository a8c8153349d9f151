"""Envelopes and states: what they hold survives the store, and a state counts what it should."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import RetryPolicy
from headrace.core.messages.message import (
    ENVELOPE_VERSION,
    FRESH,
    TRAIL_LENGTH,
    Envelope,
    State,
    TrailEntry,
    decode_envelope,
    decode_state,
    encode_envelope,
    encode_state,
)
from headrace.core.messages.overrides import Overrides
from headrace.core.values.bounds import LATEST_US
from headrace.core.values.whole_numbers import LARGEST

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
times = st.integers(0, LATEST_US)
spans = st.floats(0, 1e9)
whats = st.sampled_from(["failed", "timed out", "crashed", "released", "snoozed", "unknown"])
counts = st.integers(0, LARGEST)

policies = st.one_of(
    st.just(RetryPolicy.none()),
    st.builds(RetryPolicy.fixed, st.integers(0, 99), st.floats(0, 1e9)),
    st.builds(
        RetryPolicy.exponential,
        st.integers(0, 99),
        st.floats(0, 1e9),
        st.floats(0, 1e9),
        st.floats(1, 1000),
        st.booleans() | st.floats(0, 1e9),
        st.sampled_from([None, OSError, (KeyError, ValueError)]),
        st.sampled_from([(), TimeoutError]),
    ),
)
overrides = st.builds(Overrides, st.none() | policies, st.none() | spans, st.none() | spans)
envelopes = st.builds(
    Envelope,
    st.just(ENVELOPE_VERSION),
    text,
    text,
    times,
    st.none() | st.dictionaries(text, text, max_size=3),
    st.none() | overrides,
    st.binary(max_size=50),
)
entries = st.builds(TrailEntry, times, whats, text, text)
states = st.builds(State, counts, counts, counts, times, st.lists(entries, max_size=3).map(tuple))

ENTRY = TrailEntry(1, "failed", "worker-1", "no such row")


@given(envelopes)
def test_an_envelope_survives_the_store(envelope: Envelope) -> None:
    assert decode_envelope(encode_envelope(envelope)) == envelope


@given(states)
def test_a_state_survives_the_store(state: State) -> None:
    assert decode_state(encode_state(state)) == state


@given(st.binary(max_size=60))
def test_bytes_that_are_no_envelope_raise_one_kind_of_error(body: bytes) -> None:
    try:
        decode_envelope(body)
    except msgspec.DecodeError:
        pass


def test_the_version_stands_in_front() -> None:
    body = encode_envelope(Envelope(ENVELOPE_VERSION, "id", "task", 1, None, None, b""))
    assert msgspec.msgpack.decode(body)[0] == ENVELOPE_VERSION


def test_the_first_attempt_has_number_one() -> None:
    assert FRESH.attempt == 1


def test_failures_and_crashes_make_attempts() -> None:
    assert FRESH.failed(ENTRY).attempt == 2
    assert FRESH.failed(ENTRY).crashed(ENTRY).attempt == 3


@pytest.mark.parametrize(
    "after", [FRESH.released(), FRESH.released(ENTRY), FRESH.snoozed(ENTRY), FRESH.unknown(ENTRY)]
)
def test_hand_backs_and_snoozes_spend_no_attempt(after: State) -> None:
    assert after.attempt == 1


def test_the_first_time_a_task_was_unknown_is_remembered() -> None:
    first = FRESH.unknown(TrailEntry(100, "unknown", "worker-1"))
    assert first.unknown(TrailEntry(200, "unknown", "worker-2")).unknown_since_us == 100


def test_the_trail_keeps_the_latest_troubles() -> None:
    state = FRESH
    for number in range(TRAIL_LENGTH + 5):
        state = state.failed(TrailEntry(number, "failed", "worker-1"))
    assert [entry.at_us for entry in state.trail] == list(range(5, TRAIL_LENGTH + 5))
    assert state.failures == TRAIL_LENGTH + 5


def test_a_state_is_never_changed_in_place() -> None:
    FRESH.failed(ENTRY)
    assert State() == FRESH
