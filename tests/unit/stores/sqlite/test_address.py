"""Which URLs name a SQLite store, and what the others are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.errors import ConfigurationError
from headrace.stores import open_store
from headrace.stores.sqlite.file.address import path_of


def test_three_slashes_are_a_path_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert path_of("sqlite:///jobs.db") == tmp_path / "jobs.db"
    assert path_of("sqlite:///below/jobs.db") == tmp_path / "below" / "jobs.db"


def test_four_slashes_are_an_absolute_path() -> None:
    assert path_of("sqlite:////var/lib/jobs.db") == Path("/var/lib/jobs.db")


def test_a_later_change_of_directory_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    backend = open_store("sqlite:///jobs.db")
    monkeypatch.chdir("/")
    assert str(tmp_path / "jobs.db") in backend.description


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///", "sqlite://:memory:", "sqlite:///:memory:"])
def test_who_wants_memory_is_told_how_to_get_it(url: str) -> None:
    with pytest.raises(ConfigurationError, match="memory://"):
        open_store(url)


@pytest.mark.parametrize(
    ("url", "advice"),
    [
        ("sqlite://jobs.db", "sqlite:///jobs.db"),
        ("sqlite:///jobs.db?timeout=5", "takes none"),
        ("sqlite:///folder/", "name of the file"),
        ("sqlite:///~/jobs.db", "whole path"),
    ],
)
def test_a_wrong_form_is_refused_with_advice(url: str, advice: str) -> None:
    with pytest.raises(ConfigurationError, match=advice):
        open_store(url)


@pytest.mark.parametrize("durability", ["default", "relaxed"])
def test_two_durabilities_are_to_be_had(durability: str) -> None:
    open_store("sqlite:///jobs.db", durability=durability)


def test_another_durability_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="relaxed"):
        open_store("sqlite:///jobs.db", durability="fsync")
