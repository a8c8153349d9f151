from __future__ import annotations

import re

import pytest

from headrace import App
from tests.unit.cli.conftest import Shell


def declare(app: App) -> None:
    app.cron("0 9 * * mon-fri", tz="Europe/London", name="remind")(app.tasks["shop.quiet"])
    app.sync.schedules.add("count", app.tasks["shop.add"].call(1), every=90)


def test_schedules_are_listed(app: App, headrace: Shell, url: str) -> None:
    assert "there are no schedules" in headrace("schedules", "shop:app").stdout
    declare(app)
    lines = headrace("schedules", "shop:app").stdout.splitlines()
    assert lines[0].split() == ["schedule", "when", "next", "at", "last", "task", "queue"]
    assert "every 90 s" in lines[2]
    assert "0 9 * * mon-fri Europe/London" in lines[3]
    app.sync.schedules.pause("remind")
    without_code = headrace("schedules", "list", "--url", url).stdout.splitlines()
    assert "in the code" in without_code[3]
    assert "paused" in without_code[3]


def test_on_a_usual_terminal_the_times_stay_whole(
    app: App, headrace: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(app)
    monkeypatch.setenv("COLUMNS", "80")
    _, _, count, remind = headrace("schedules", "shop:app").stdout.splitlines()
    assert re.search(r"every 90 s +in \d+ s +never +default", count)
    assert re.search(r"0 9 \* \* mon-fri Europe/London +in [\d.]+ (h|d|min|s) +never", remind)


def test_an_interval_is_shown_in_large_units_where_these_are_exact(app: App, headrace: Shell) -> None:
    for seconds in (3601, 5400):
        app.sync.schedules.add(f"each-{seconds}", app.tasks["shop.add"].call(1), every=seconds)
    shown = headrace("schedules", "shop:app").stdout
    assert "every 3601 s" in shown
    assert "every 1.5 h" in shown


def test_a_nickname_of_cron_is_shown_as_it_was_written(app: App, headrace: Shell) -> None:
    app.sync.schedules.add("tidy", app.tasks["shop.quiet"].call(), cron="@daily", tz="Europe/London")
    assert "@daily Europe/London" in headrace("schedules", "shop:app").stdout
    assert headrace.json("schedules", "shop:app")[0]["cron"] == "@daily"


def test_as_json(app: App, headrace: Shell) -> None:
    declare(app)
    count, remind = headrace.json("schedules", "shop:app")
    assert (count["name"], count["every"], count["declared"], count["last_at"]) == (
        "count",
        90.0,
        False,
        None,
    )
    assert (remind["cron"], remind["tz"], remind["declared"]) == ("0 9 * * mon-fri", "Europe/London", True)


def test_they_are_run_paused_and_resumed(app: App, headrace: Shell) -> None:
    declare(app)
    id = headrace("schedules", "run", "shop:app", "count").stdout.strip()
    assert app.sync.status(app.job(id)) == "queued"
    assert headrace("schedules", "pause", "shop:app", "count", "remind").exit_code == 0
    assert [info.paused for info in app.sync.schedules.list()] == [True, True]
    assert headrace("schedules", "resume", "shop:app", "remind").stdout == "remind is resumed\n"
    assert [info.paused for info in app.sync.schedules.list()] == [True, False]


def test_steering_answers_programs_too(app: App, headrace: Shell) -> None:
    declare(app)
    ids = headrace.json("schedules", "run", "shop:app", "count", "remind")["ids"]
    assert [app.sync.status(app.job(ids[name])) for name in ("count", "remind")] == ["queued", "queued"]
    assert headrace.json("schedules", "pause", "shop:app", "count", "remind") == {
        "paused": ["count", "remind"]
    }
    assert headrace.json("schedules", "resume", "shop:app", "count") == {"resumed": ["count"]}
    assert headrace.json("schedules", "remove", "shop:app", "count", "--yes") == {"removed": ["count"]}


def test_a_dynamic_one_is_removed_after_asking(app: App, headrace: Shell) -> None:
    declare(app)
    assert "add --yes" in headrace.refused("schedules", "remove", "shop:app", "count")
    assert headrace("schedules", "remove", "shop:app", "count", "--yes").stdout == "count removed\n"
    assert "declared in the code" in headrace.refused("schedules", "remove", "shop:app", "remind", "--yes")


def test_an_unknown_one_is_said(app: App, headrace: Shell) -> None:
    declare(app)
    assert "there are: count, remind" in headrace.refused("schedules", "run", "shop:app", "nix")
