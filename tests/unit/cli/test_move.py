"""`headrace move`: everything in one store goes to another one."""

from __future__ import annotations

import pytest

from headrace import App
from headrace.cli.commands.move import MoveScreen, shown_url
from headrace.engine.moving.draining import Remaining
from headrace.engine.moving.move import Side
from headrace.stores import open_store

from .conftest import Shell


def test_everything_moves_and_a_repeat_changes_nothing(headrace: Shell, app: App, url: str) -> None:
    headrace("enqueue", "shop:app", "add", "[2, 3]")
    there = ("--from", url, "--to", f"{url}.moved")

    moved = headrace("move", *there)
    assert "moved: 1 queued in 1 stream;" in moved.stdout
    assert "to move: 1 queued" in moved.stderr

    assert "nothing to do" in headrace("move", *there).stdout
    assert "was moved to sqlite:///" in headrace.refused("enqueue", "shop:app", "add", "[2, 3]")
    assert "default" in headrace("status", "--url", f"{url}.moved").stdout


def test_status_and_doctor_of_the_source_say_where_everything_is(headrace: Shell, app: App, url: str) -> None:
    headrace("enqueue", "shop:app", "add", "[2, 3]")
    assert '"seal": null' in headrace("status", "shop:app", "--json").stdout
    headrace("move", "--from", url, "--to", f"{url}.moved")

    told = "sealed: everything was moved to sqlite:///"
    assert told in headrace("status", "shop:app").stdout
    assert '"stage": "moved"' in headrace("status", "shop:app", "--json").stdout
    assert told in headrace("doctor", "shop:app").stdout
    assert "sealed" not in headrace("doctor", "--url", f"{url}.moved").stdout


def test_a_move_that_never_began_cannot_be_cancelled(headrace: Shell, app: App, url: str) -> None:
    headrace("enqueue", "shop:app", "add", "[2, 3]")
    cancelled = headrace("move", "--from", url, "--to", f"{url}.moved", "--cancel")
    assert "is not being moved" in cancelled.stdout


def test_urls_that_cannot_work_are_refused_before_anything_is_sealed(
    headrace: Shell, app: App, url: str
) -> None:
    headrace("enqueue", "shop:app", "add", "[2, 3]")
    assert "same store" in headrace.refused("move", "--from", url, "--to", url)
    assert "--to" in headrace.refused("move", "--from", url, "--to", "mysql://localhost")
    assert "memory" in headrace.refused("move", "--from", url, "--to", "memory://")
    assert "no file" in headrace.refused("move", "--from", f"{url}.missing", "--to", url)
    headrace("enqueue", "shop:app", "add", "[2, 3]")


def test_what_is_waited_for_is_said_again_when_it_changes_or_after_half_a_minute(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output = []
    store = open_store("memory://", namespace="headrace")
    screen = MoveScreen(Side(store, "here"), Side(store, "there"))
    for now, running in ((100, 2), (103, 2), (106, 1), (109, 1), (136, 1)):
        monkeypatch.setattr("headrace.cli.commands.move.time.monotonic", lambda now=now: float(now))
        screen.waits(Remaining(running))
        output.append(capsys.readouterr().err)
    two, one = "waiting for 2 running\n", "waiting for 1 running\n"
    assert output == [two, "", one, "", one]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://:secret@host:6379/2", "redis://host:6379/2"),
        ("redis://me:secret@host", "redis://me@host"),
        ("postgresql://me:se@cret@host/shop?schema=jobs", "postgresql://me@host/shop?schema=jobs"),
        ("postgresql:///shop?password=secret&host=h&sslpassword=secret", "postgresql:///shop?host=h"),
        ("sqlite:////srv/jobs.db", "sqlite:////srv/jobs.db"),
    ],
)
def test_no_password_is_shown(url: str, shown: str) -> None:
    assert shown_url(url) == shown
