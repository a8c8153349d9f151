from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace import App, QueueInfo
from headrace.cli.output import confirm
from tests.unit.cli.conftest import Shell

Enqueue = Callable[..., Any]


def queue(app: App, name: str) -> QueueInfo:
    return next(queue for queue in app.sync.admin.queues() if queue.name == name)


def test_queues_are_paused_and_resumed(app: App, headrace: Shell, enqueue: Enqueue) -> None:
    enqueue("shop.add", 1)
    enqueue("shop.mail", "ada")
    assert headrace("pause", "shop:app", "default", "mails").stderr == ""
    assert queue(app, "default").paused
    assert queue(app, "mails").paused
    assert headrace("resume", "mails", "shop:app").stdout == "mails is resumed\n"
    assert not queue(app, "mails").paused


def test_a_queue_that_only_a_task_names_may_be_paused_a_mistyped_one_is_remarked_on(
    app: App, headrace: Shell, enqueue: Enqueue
) -> None:
    assert headrace("pause", "shop:app", "mails").stderr == ""
    enqueue("shop.add", 1)
    result = headrace("pause", "shop:app", "defualt")
    assert result.exit_code == 0
    assert "did you mean default?" in result.stderr


def test_a_purge_cancels_what_waits(app: App, headrace: Shell, enqueue: Enqueue) -> None:
    enqueue("shop.add", 1)
    enqueue("shop.add", 2, delay=60)
    result = headrace("purge", "shop:app", "default", "--dry-run")
    assert result.stdout == "would cancel 2 jobs of default (1 queued, 1 scheduled)\n"
    result = headrace("purge", "shop:app", "default", "--yes")
    assert (result.exit_code, result.stdout) == (0, "2 jobs of default cancelled\n")
    assert queue(app, "default") == QueueInfo("default")
    assert (
        headrace("purge", "shop:app", "default").stdout == "default has no waiting jobs: nothing to cancel\n"
    )


def test_a_purge_asks_first(
    app: App, headrace: Shell, enqueue: Enqueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    enqueue("shop.add", 1)
    assert "add --yes" in headrace.refused("purge", "shop:app", "default")
    monkeypatch.setattr(confirm, "is_terminal", lambda stream: True)
    assert headrace("purge", "shop:app", "default", typed="n\n").exit_code == 1
    assert queue(app, "default").queued == 1


def test_a_queue_that_is_not_there_is_not_purged(app: App, headrace: Shell, enqueue: Enqueue) -> None:
    assert "it has none yet" in headrace.refused("purge", "shop:app", "mails", "--yes")
    enqueue("shop.mail", "ada")
    assert "did you mean mails?" in headrace.refused("purge", "shop:app", "mail", "--yes")
    assert "it has mails" in headrace.refused("purge", "shop:app", "xyzzy", "--yes")


def test_names_that_cannot_be_are_refused(app: App, headrace: Shell) -> None:
    assert "queue name 'a b' is not allowed" in headrace.refused("resume", "shop:app", "a b")
    assert "Missing argument 'QUEUE...'" in headrace.refused("pause", "--app", "shop:app")


def test_a_queue_is_split_after_asking(
    app: App, headrace: Shell, enqueue: Enqueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    enqueue("shop.add", 1)
    assert "Change default from 1 partition to 4?" in headrace.refused("split", "shop:app", "default", "4")
    result = headrace("split", "shop:app", "default", "4", "--yes")
    assert (result.exit_code, result.stdout) == (0, "new jobs of default go to 4 partitions\n")
    assert queue(app, "default").partitions == 4
    assert (
        headrace("split", "shop:app", "default", "4", "--yes").stdout == "default has 4 partitions already\n"
    )
    monkeypatch.setattr(confirm, "is_terminal", lambda stream: True)
    assert headrace("split", "shop:app", "default", "2", typed="n\n").exit_code == 1
    assert queue(app, "default").partitions == 4
    assert queue(app, "default").queued == 1


def test_a_queue_that_only_the_code_knows_is_suggested(app: App, headrace: Shell) -> None:
    assert "did you mean mails?" in headrace("pause", "shop:app", "maisl").stderr


def test_a_split_wants_a_queue_and_a_number(app: App, headrace: Shell, enqueue: Enqueue) -> None:
    enqueue("shop.add", 1)
    assert "did you mean default?" in headrace.refused("split", "shop:app", "defualt", "4")
    assert "PARTITIONS is a number" in headrace.refused("split", "shop:app", "default", "many")
    assert "partitions must be 64 at most" in headrace.refused("split", "shop:app", "default", "300")
    assert "Missing argument 'QUEUE PARTITIONS'" in headrace.refused("split", "shop:app", "default")


def test_a_purge_of_one_state_removes_its_jobs(app: App, headrace: Shell, enqueue: Enqueue) -> None:
    enqueue("shop.add", 1)
    enqueue("shop.add", 2, delay=60)
    words = ("purge", "shop:app", "default", "--state", "scheduled")
    assert headrace(*words, "--dry-run").stdout == "would remove 1 scheduled job of default\n"
    assert headrace(*words, "--older-than", "1h").stdout == "would remove 0 scheduled jobs of default\n"
    assert "add --yes" in headrace.refused(*words)
    assert headrace(*words, "--yes").stdout == "1 scheduled job of default removed\n"
    assert queue(app, "default").queued == 1
    result = headrace("purge", "shop:app", "default", "--older-than", "1h")
    assert (result.exit_code, "goes with --state" in result.stderr) == (2, True)


def test_a_queue_is_removed(app: App, headrace: Shell, enqueue: Enqueue) -> None:
    enqueue("shop.add", 1)
    words = ("purge", "shop:app", "default", "--remove")
    assert "holds 1 queued" in headrace.refused(*words, "--yes")
    dry = headrace(*words, "--force", "--dry-run")
    assert dry.stdout == "would remove the queue default with everything in it (1 queued)\n"
    assert headrace(*words, "--force", "--yes").stdout == "default is removed\n"
    assert "default" not in [each.name for each in app.sync.admin.queues()]


def test_a_unique_key_is_released(headrace: Shell, enqueue: Enqueue) -> None:
    enqueue("shop.add", 1, unique_key="order-7")
    words = ("jobs", "release-key", "shop:app", "default", "order-7")
    assert "add --yes" in headrace.refused(*words)
    assert headrace(*words, "--yes").stdout == "the key order-7 of default is free\n"
    assert "no job of default holds the key order-7" in headrace.failed(*words, "--yes")


def test_tasks_are_paused_and_resumed(app: App, headrace: Shell) -> None:
    paused = headrace("pause", "shop:app", "--task", "greet")
    assert "task greet is paused" in paused.stdout
    assert "the app knows no task 'greet'" in paused.stderr
    assert [limit["name"] for limit in headrace.json("limits", "shop:app")] == ["paused:greet"]
    assert "task greet is resumed" in headrace("resume", "shop:app", "--task", "greet").stdout
    assert app.sync.admin.limits() == []
    nothing = headrace("pause", "shop:app")
    assert nothing.exit_code == 2
    assert "--task" in nothing.stderr
