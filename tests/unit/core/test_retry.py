"""Retry policies: how often, how soon, and never beyond what a float or a store can hold."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import ConfigurationError, RetryPolicy
from headrace.core.messages.retry import DEFAULT_RETRY
from headrace.core.values.durations import LONGEST

delays = st.floats(min_value=0, max_value=LONGEST)


def test_without_retries_the_first_failure_is_final() -> None:
    assert RetryPolicy.none().delay(1) is None


def test_max_retries_counts_retries_and_not_the_first_run() -> None:
    policy = RetryPolicy.fixed(2, 5.0)
    assert [policy.delay(failures) for failures in (1, 2, 3)] == [5.0, 5.0, None]


def test_no_retries_at_all_may_be_asked_for() -> None:
    assert RetryPolicy.fixed(0, 5.0).delay(1) is None
    assert RetryPolicy.exponential(0, 5.0).delay(1) is None


def test_without_jitter_the_delay_doubles_up_to_the_cap() -> None:
    policy = RetryPolicy.exponential(6, base=1.0, cap=10.0, jitter=False)
    assert [policy.delay(failures) for failures in range(1, 8)] == [1, 2, 4, 8, 10, 10, None]


def test_the_default_cap_is_ten_minutes() -> None:
    assert RetryPolicy.exponential(100, base=1.0, jitter=False).delay(100) == 600.0


def test_a_fixed_delay_may_be_longer_than_the_default_cap() -> None:
    assert RetryPolicy.fixed(1, timedelta(hours=2)).delay(1) == 7200.0


@given(failures=st.integers(1, 10_000), base=delays, cap=delays)
def test_with_jitter_the_delay_lies_between_zero_and_what_it_would_be_without(
    failures: int, base: float, cap: float
) -> None:
    jittered = RetryPolicy.exponential(10_000, base, cap).delay(failures)
    ceiling = RetryPolicy.exponential(10_000, base, cap, jitter=False).delay(failures)
    assert jittered is not None
    assert ceiling is not None
    assert 0 <= jittered <= ceiling <= cap


def test_jitter_spreads_the_delays() -> None:
    policy = RetryPolicy.exponential(1, base=100.0)
    delays = [policy.delay(1) or 0.0 for _ in range(200)]
    assert min(delays) < 30
    assert max(delays) > 70


@given(failures=st.integers(1, 10**9))
def test_no_number_of_failures_overflows(failures: int) -> None:
    assert RetryPolicy.exponential(10**9, base=LONGEST, cap=LONGEST, jitter=False).delay(failures) == LONGEST


@pytest.mark.parametrize("max_retries", [-1, 1.5, True, "3", None])
def test_max_retries_must_be_a_whole_number(max_retries: int) -> None:
    with pytest.raises(ConfigurationError, match="max_retries"):
        RetryPolicy.fixed(max_retries, 1.0)
    with pytest.raises(ConfigurationError, match="max_retries"):
        RetryPolicy.exponential(max_retries, 1.0)


@pytest.mark.parametrize("delay", [-1, float("nan"), float("inf"), "1", None])
def test_delays_must_be_times(delay: float) -> None:
    with pytest.raises(ConfigurationError, match="delay"):
        RetryPolicy.fixed(1, delay)
    with pytest.raises(ConfigurationError, match="base"):
        RetryPolicy.exponential(1, delay)
    with pytest.raises(ConfigurationError, match="cap"):
        RetryPolicy.exponential(1, 1.0, cap=delay)


def test_jitter_is_yes_or_no() -> None:
    with pytest.raises(ConfigurationError, match="jitter must be True or False"):
        RetryPolicy("exponential", 3, 1.0, jitter="yes")  # type: ignore[arg-type]


def test_tasks_that_name_none_get_three_retries_with_jitter() -> None:
    assert DEFAULT_RETRY.max_retries == 3
    assert DEFAULT_RETRY.jitter
    assert DEFAULT_RETRY.delay(4) is None


@pytest.mark.parametrize(
    "policy", [RetryPolicy.none(), RetryPolicy.fixed(3, 2.5), RetryPolicy.exponential(5, 0.1, cap=9)]
)
def test_a_policy_survives_the_way_to_the_worker(policy: RetryPolicy) -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(policy), type=RetryPolicy) == policy


def test_the_factor_says_how_fast_delays_grow() -> None:
    policy = RetryPolicy.exponential(5, base=1.0, cap=50.0, factor=3, jitter=False)
    assert [policy.delay(failures) for failures in range(1, 6)] == [1, 3, 9, 27, 50]


@given(failures=st.integers(1, 10_000), factor=st.floats(1, 1000), base=delays)
def test_no_factor_leads_beyond_the_cap(failures: int, factor: float, base: float) -> None:
    delay = RetryPolicy.exponential(10_000, base, 60, factor, jitter=False).delay(failures)
    assert delay is not None
    assert 0 <= delay <= 60


@given(failures=st.integers(1, 10))
def test_jitter_in_seconds_is_added_to_the_delay(failures: int) -> None:
    delay = RetryPolicy.exponential(10, base=1.0, jitter=timedelta(seconds=5)).delay(failures)
    assert delay is not None
    assert 2 ** (failures - 1) <= delay <= 2 ** (failures - 1) + 5


@pytest.mark.parametrize("factor", [0.5, 1001, True, "2", float("nan"), None])
def test_a_wrong_factor_is_refused(factor: object) -> None:
    with pytest.raises(ConfigurationError, match="factor must be a number from 1 to 1000"):
        RetryPolicy.exponential(1, factor=factor)  # type: ignore[arg-type]


def test_a_policy_for_some_errors_survives_its_storing() -> None:
    policy = RetryPolicy.exponential(3, jitter=2.5, on=OSError, give_up_on=(FileNotFoundError,))
    stored = msgspec.msgpack.decode(msgspec.msgpack.encode(policy), type=RetryPolicy)
    assert stored == policy
    assert stored.delay(1, PermissionError()) is not None
    assert stored.delay(1, FileNotFoundError()) is None
    assert stored.delay(1, ValueError()) is None
    assert stored.gives_up(ValueError())


@pytest.mark.parametrize("option", ["on", "give_up_on"])
@pytest.mark.parametrize("wrong", ["ValueError", int, ValueError("x"), [ValueError, "x"]])
def test_only_classes_of_exceptions_can_be_named(option: str, wrong: object) -> None:
    with pytest.raises(ConfigurationError, match=f"write {option}=\\(ConnectionError, TimeoutError\\)"):
        RetryPolicy.fixed(1, 1, **{option: wrong})  # type: ignore[arg-type]


def test_a_policy_for_no_error_says_what_to_write() -> None:
    with pytest.raises(ConfigurationError, match=r"write RetryPolicy\.none\(\) instead"):
        RetryPolicy.fixed(1, 1, on=())
