from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any

import pytest

from headrace import App, GroupInfo, TopicInfo
from headrace.cli.output import confirm
from tests.support.waiting import wait_until_sync
from tests.unit.cli.conftest import Shell

Publish = Callable[..., str]
Drain = Callable[[], None]
Working = Callable[[], AbstractContextManager[None]]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person sits there."""
    monkeypatch.setattr(confirm, "is_terminal", lambda stream: True)


def group_of(app: App, name: str = "billing") -> GroupInfo:
    [topic] = app.sync.admin.topics()
    return next(group for group in topic.groups if group.group == name)


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_a_store_without_topics_says_how_one_is_made(app: App, headrace: Shell) -> None:
    result = headrace("topics", "shop:app")
    assert (result.exit_code, result.stdout[:23]) == (0, "there are no topics yet")
    assert headrace.json("topics", "shop:app") == []


def test_each_group_has_a_row_with_its_lag(app: App, headrace: Shell, publish: Publish, drain: Drain) -> None:
    drain()
    for number in (1, 2, 3):
        publish(number)
    header, _, audit, billing = rows(headrace("topics", "shop:app").stdout)
    assert " ".join(header) == "topic events last group lag running retrying dead oldest member seen"
    assert audit[:2] == ["orders", "3"]
    assert audit[audit.index("audit") :][:2] == ["audit", "3"]
    assert billing[:6] == ["billing", "3", "0", "0", "0", billing[5]]
    drain()
    assert rows(headrace("topics", "shop:app").stdout)[3][:5] == ["billing", "0", "0", "0", "2"]


def test_a_topic_without_groups_and_one_with_events_for_later_are_listed(
    app: App, headrace: Shell, publish: Publish
) -> None:
    publish(1, delay=60)
    header, _, row = rows(headrace("topics", "shop:app").stdout)
    assert header[2] == "later"
    assert row == ["orders", "0", "1", "none"]


def test_json_has_the_fields_of_the_topics_and_their_groups(
    app: App, headrace: Shell, publish: Publish, drain: Drain
) -> None:
    publish(1)
    drain()
    [topic] = headrace.json("topics", "shop:app")
    assert set(topic) == set(TopicInfo.__struct_fields__)
    assert (topic["name"], topic["length"], topic["retention"]) == ("orders", 1, 7 * 86400)
    assert datetime.fromisoformat(topic["last"]).tzinfo is not None
    audit, billing = topic["groups"]
    assert set(billing) == set(GroupInfo.__struct_fields__)
    assert (billing["group"], billing["dead"], audit["dead"]) == ("billing", 1, 0)


def test_the_status_has_them_too(app: App, headrace: Shell, publish: Publish, drain: Drain) -> None:
    publish(1)
    text = headrace("status", "shop:app").stdout
    assert "no queue has been used yet" not in text
    assert "orders" in text
    drain()
    app.sync.enqueue(app.tasks["shop.add"].call(1))
    found = [row[0] for row in rows(headrace("status", "shop:app").stdout) if row]
    assert [name for name in found if name in ("default", "orders", "billing")] == [
        "default",
        "orders",
        "billing",
    ]
    [topic] = headrace.json("status", "shop:app")["topics"]
    assert [group["group"] for group in topic["groups"]] == ["audit", "billing"]


def test_a_group_goes_on_from_another_place(
    app: App, headrace: Shell, publish: Publish, drain: Drain
) -> None:
    _, second, _ = publish(2), publish(4), publish(6)
    drain()

    def reset(to: str) -> str:
        result = headrace("topics", "reset", "shop:app", "orders", "billing", "--to", to, "--yes")
        assert result.exit_code == 0, result.output
        return result.stdout

    assert reset("beginning") == "billing of orders reads from the beginning: 3 events ahead\n"
    assert group_of(app).lag == 3
    assert reset(second) == f"billing of orders reads from event {second}: 2 events ahead\n"
    assert reset("new") == "billing of orders reads new events only: 0 events ahead\n"
    assert "3 events ahead" in reset("2h")
    assert "3 events ahead" in reset("2020-01-01")
    assert "0 events ahead" in reset("2999-01-01T10:00:00+02:00")
    assert group_of(app, "audit").lag == 0


def test_a_reset_that_cannot_be_says_why_and_changes_nothing(
    app: App, headrace: Shell, publish: Publish, drain: Drain
) -> None:
    publish(2)
    drain()

    def refused(*words: str) -> str:
        return headrace.refused("topics", "reset", "shop:app", *words)

    assert "add --yes" in refused("orders", "billing", "--to", "beginning")
    assert "knows no topic 'order'; did you mean orders?" in refused("order", "billing", "--to", "new")
    assert "orders knows no group 'biling'; did you mean billing?" in refused(
        *("orders", "biling", "--to", "new")
    )
    assert "'yesterday' is no time: write new, beginning" in refused(
        *("orders", "billing", "--to", "yesterday")
    )
    assert "Missing option '--to'" in refused("orders", "billing")
    assert "Missing argument 'TOPIC GROUP'" in headrace.refused("topics", "reset", "orders", "--to", "new")
    assert "holds no event" in refused("orders", "billing", "--to", "0" * 26, "--yes")
    assert "Expected 'TOPIC GROUP', not 'orders billing more'" in refused(
        "orders", "billing", "more", "--to", "new"
    )
    assert group_of(app).lag == 0


@pytest.mark.usefixtures("terminal")
def test_a_person_is_asked_before_a_group_is_removed(
    app: App, headrace: Shell, publish: Publish, drain: Drain
) -> None:
    publish(1)
    drain()
    refusal = headrace("topics", "remove", "shop:app", "orders", "billing", typed="n\n")
    assert refusal.exit_code == 1
    assert "Remove group billing of orders, with 1 dead letter?" in refusal.stderr
    assert group_of(app).dead == 1
    result = headrace("topics", "remove", "shop:app", "orders", "billing", typed="y\n")
    assert (result.exit_code, result.stdout) == (0, "billing of orders removed\n")
    assert [group.group for group in app.sync.admin.topics()[0].groups] == ["audit"]


def test_where_nobody_can_be_asked_yes_must_be_said(
    app: App, headrace: Shell, publish: Publish, drain: Drain
) -> None:
    publish(2)
    drain()
    assert "add --yes" in headrace.refused("topics", "remove", "shop:app", "orders", "billing")
    result = headrace("topics", "remove", "shop:app", "orders", "billing", "--yes")
    assert (result.stdout, result.stderr) == ("billing of orders removed\n", "")
    assert "orders knows no group 'billing'" in headrace.refused(
        *("topics", "remove", "shop:app", "orders", "billing", "--yes")
    )


def test_who_removes_a_group_that_is_served_is_told_what_follows(
    app: App, headrace: Shell, publish: Publish, working: Working
) -> None:
    publish(2)
    with working():
        wait_until_sync(lambda: any(each["groups"] for each in headrace.json("workers", "shop:app")))
        assert "orders/billing" in headrace("workers", "shop:app").stdout
        result = headrace("topics", "remove", "shop:app", "orders", "billing", "--yes")
    assert "workers that still serve it get no more events" in result.stderr


def test_a_group_is_paused_and_goes_on(app: App, headrace: Shell, publish: Publish, drain: Drain) -> None:
    publish(2)
    drain()
    assert (
        "billing of orders is paused" in headrace("topics", "pause", "shop:app", "orders", "billing").stdout
    )
    assert (group_of(app).paused, group_of(app, "audit").paused) == (True, False)
    assert "paused" in headrace("topics", "shop:app").stdout
    assert (
        headrace("topics", "resume", "shop:app", "orders", "billing").stdout
        == "billing of orders is resumed\n"
    )
    assert not group_of(app).paused
    assert "knows no group" in headrace.refused("topics", "pause", "shop:app", "orders", "nobody")


@pytest.mark.parametrize("columns", ["40", "60", "80", "100"])
def test_the_table_fits_a_terminal(
    app: App, headrace: Shell, publish: Publish, drain: Drain, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    publish(2, delay=60)
    drain()
    app.sync.admin.pause_group("orders", "billing")
    monkeypatch.setenv("COLUMNS", columns)
    lines = headrace("topics", "shop:app").stdout.splitlines()
    assert max(map(len, lines)) <= int(columns)
    if columns != "40":
        assert "paused" in lines[3]


def test_the_store_may_be_named_by_its_url(
    app: App, headrace: Shell, publish: Publish, drain: Drain, url: str
) -> None:
    publish(2)
    drain()
    document: Any = headrace.json("topics", "--url", url)
    assert document[0]["name"] == "orders"
    result = headrace("topics", "reset", "orders", "billing", "--to", "beginning", "--yes", "--url", url)
    assert result.exit_code == 0, result.output
