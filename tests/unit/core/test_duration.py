"""Spans of time: seconds or a timedelta, and nothing that is neither."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import ConfigurationError
from headrace.core.runtime.clock import microseconds
from headrace.core.values.durations import LONGEST, positive_seconds, seconds


@pytest.mark.parametrize(
    ("given", "expected"), [(0, 0.0), (1, 1.0), (2.5, 2.5), (timedelta(minutes=1), 60.0)]
)
def test_seconds_and_timedeltas_are_both_spans(given: object, expected: float) -> None:
    assert seconds("delay", given) == expected


@pytest.mark.parametrize(
    "given", [-1, -0.001, timedelta(seconds=-1), float("nan"), float("inf"), True, "60", None, LONGEST * 2]
)
def test_everything_else_is_refused_with_the_options_name(given: object) -> None:
    with pytest.raises(ConfigurationError, match="delay must be seconds or a timedelta"):
        seconds("delay", given)


def test_where_zero_makes_no_sense_it_is_refused() -> None:
    assert positive_seconds("lease", 0.1) == 0.1
    with pytest.raises(ConfigurationError, match="lease must be more than 0"):
        positive_seconds("lease", 0)


@given(st.floats(min_value=0, max_value=LONGEST))
def test_every_span_fits_a_stores_microseconds(span: float) -> None:
    assert 0 <= microseconds(seconds("delay", span)) < 2**63
