"""A lease that is shortened holds as it was for its own length."""

from __future__ import annotations

from headrace.core.rules.lease import DEFAULT_LEASE, Lease


def test_without_one_the_default_holds() -> None:
    assert Lease().at(5) == DEFAULT_LEASE


def test_the_first_one_holds_at_once() -> None:
    assert Lease().changed(100, 0).at(0) == 100


def test_a_longer_one_holds_at_once() -> None:
    assert Lease(100).changed(200, 0) == Lease(200)


def test_a_shorter_one_holds_when_the_longer_one_has_run_out() -> None:
    lease = Lease(100).changed(10, 1000)
    assert [lease.at(now) for now in (1000, 1099, 1100)] == [100, 100, 10]


def test_shortened_again_the_longest_holds_to_its_end() -> None:
    lease = Lease(100).changed(10, 1000).changed(5, 1050)
    assert [lease.at(now) for now in (1050, 1099, 1100)] == [100, 100, 5]


def test_shortened_long_after_only_the_last_one_counts() -> None:
    lease = Lease(100).changed(10, 1000).changed(5, 5000)
    assert [lease.at(now) for now in (5000, 5009, 5010)] == [10, 10, 5]


def test_to_and_fro_the_longest_holds_to_its_end() -> None:
    lease = Lease(100).changed(10, 1000).changed(20, 1010)
    assert [lease.at(now) for now in (1099, 1100)] == [100, 20]
    assert lease.changed(100, 1020) == Lease(100)


def test_the_same_again_changes_nothing() -> None:
    lease = Lease(100).changed(10, 1000)
    assert lease.changed(10, 1050) == lease
    assert Lease(100).changed(100, 7) == Lease(100)
