"""Where a store is meant, and the words for one that is not there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace import App
from headrace.cli.target.store import split
from tests.unit.cli.sample_app import make_shop

from .conftest import Shell

Enqueue = Callable[..., Any]


def queues(shell: Shell, *words: str) -> list[str]:
    return [queue["name"] for queue in shell.json("status", *words)["queues"]]


@pytest.fixture
def used(enqueue: Enqueue) -> None:
    enqueue("shop.add", 1, queue="used")


@pytest.mark.usefixtures("used")
def test_a_store_is_named_by_module_and_app_by_url_or_by_either_as_an_option(
    app: App, headrace: Shell, url: str
) -> None:
    for words in (["shop:app"], [url], ["--app", "shop:app"], ["--url", url]):
        assert queues(headrace, *words) == ["used"]


@pytest.mark.usefixtures("used")
def test_a_store_is_named_by_the_environment(
    headrace: Shell, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as environment:
        environment.setenv("HEADRACE_APP", "shop:app")
        assert queues(headrace) == ["used"]
    monkeypatch.setenv("HEADRACE_URL", url)
    assert queues(headrace) == ["used"]


@pytest.mark.usefixtures("used")
def test_the_command_line_goes_before_the_environment(
    app: App, headrace: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_URL", f"sqlite:///{tmp_path}/other.db")
    monkeypatch.setenv("HEADRACE_APP", "nothing:here")
    assert queues(headrace, "shop:app") == ["used"]


def test_an_app_in_the_place_of_an_id_is_told_apart_from_a_wrong_id(headrace: Shell) -> None:
    app = make_shop("sqlite:///headrace.db")
    app.sync.enqueue(app.tasks["shop.add"].call(1))
    assert "if shop:app is your app, add the id after it" in headrace.failed("dead", "show", "shop:app")


def test_without_a_word_it_is_the_file_that_apps_use_by_default(headrace: Shell, url: str) -> None:
    assert "say where the store is" in headrace.refused("status")
    app = make_shop("sqlite:///headrace.db")
    app.sync.enqueue(app.tasks["shop.add"].call(1))
    app.sync.close()
    assert queues(headrace) == ["default"]


def test_a_namespace_goes_with_a_url(headrace: Shell, url: str, app: App) -> None:
    other = App(url, namespace="other")
    other.sync.admin.queues()
    other.sync.close()
    assert queues(headrace, "--url", url, "--namespace", "other") == []
    assert "has its own" in headrace.refused("status", "shop:app", "--namespace", "other")


def test_two_stores_are_one_too_many(app: App, headrace: Shell, url: str) -> None:
    assert "the store is named more than once" in headrace.refused("status", "shop:app", "--url", url)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("nothing:app", "there is no module 'nothing'"),
        ("shop.py:app", "write the module, shop"),
        ("shop:nothing", "shop has no 'nothing'; it has app"),
        ("shop", "write module:app"),
        ("foo://x", "is no store that headrace knows"),
        ("sqlite:///missing.db", "there is no file missing.db"),
        ("memory://", "only the process that made it"),
    ],
)
def test_a_wrong_place_is_answered_in_clear_words(
    app: App, headrace: Shell, tmp_path: Path, target: str, words: str
) -> None:
    assert words in headrace.refused("status", target)
    assert not (tmp_path / "missing.db").exists()


def test_what_is_no_url_is_not_taken_for_a_module(headrace: Shell, url: str) -> None:
    assert "'jobs.db' is no URL: write sqlite:///jobs.db" in headrace.refused("status", "--url", "jobs.db")


def test_a_module_that_breaks_is_answered_in_one_line(headrace: Shell, url: str, tmp_path: Path) -> None:
    (tmp_path / "broken_module.py").write_text("1 / 0\n")
    words = headrace.refused("status", "broken_module:app")
    assert "broken_module cannot be imported: ZeroDivisionError: division by zero" in words


@pytest.mark.more
def test_a_server_that_is_away_is_a_failure(headrace: Shell, url: str) -> None:
    assert "cannot be reached" in headrace.failed("status", "--url", "redis://localhost:1/0")


def test_what_a_module_prints_does_not_spoil_the_output(headrace: Shell, url: str, tmp_path: Path) -> None:
    source = "from headrace import App\nprint('hello')\napp = App('sqlite:///talkative.db')\n"
    (tmp_path / "talkative_module.py").write_text(source)
    assert headrace.json("jobs", "talkative_module:app") == []


def test_a_named_memory_store_is_shared_in_the_process(headrace: Shell, url: str) -> None:
    app = make_shop("memory://cli-test")
    app.sync.enqueue(app.tasks["shop.add"].call(1))
    result = headrace("jobs", "--url", "memory://cli-test")
    app.sync.close()
    assert "shop.add" in result.stdout
    assert "this process's own" in result.stderr


@pytest.mark.parametrize(
    ("words", "least", "expected"),
    [
        (("shop:app", "mails"), 1, ("shop:app", ("mails",))),
        (("mails", "shop:app"), 1, ("shop:app", ("mails",))),
        (("redis://h/0", "mails"), 1, ("redis://h/0", ("mails",))),
        (("a:b",), 1, (None, ("a:b",))),  # one name is wanted, so this is it
        (("a:b",), 0, ("a:b", ())),
        (("order:17", "order:18"), 1, (None, ("order:17", "order:18"))),
        ((), 0, (None, ())),
    ],
)
def test_the_app_stands_before_or_after_the_names(
    words: tuple[str, ...], least: int, expected: tuple[str | None, tuple[str, ...]]
) -> None:
    assert split(words, least=least) == expected
