from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import msgspec
import pytest

from headrace import App, JobStatus
from headrace.cli.commands import enqueue as enqueue_module
from headrace.jobs.handles import lookup
from tests.support.waiting import wait_until_sync
from tests.unit.cli.conftest import Shell

Working = Callable[[], AbstractContextManager[None]]


def only_job(app: App, queue: str = "default") -> Any:
    [info] = app.sync.admin.jobs(queue)
    return info


def nothing_was_sent(app: App) -> bool:
    return not any(queue.queued + queue.scheduled for queue in app.sync.admin.queues())


def test_it_prints_the_id_of_the_stored_job(app: App, headrace: Shell) -> None:
    result = headrace("enqueue", "shop:app", "shop.add", "[2, 3]")
    assert (result.exit_code, result.stderr) == (0, "")
    info = app.sync.admin.job(result.stdout.strip())
    assert info is not None
    assert (info.task, info.status) == ("shop.add", JobStatus.QUEUED)


def test_an_object_names_the_arguments(app: App, headrace: Shell) -> None:
    headrace("enqueue", "shop:app", "shop.add", '{"b": 3, "a": 2}')
    contents = app.sync.admin.contents(only_job(app).id)
    assert contents is not None
    assert (contents.args, contents.kwargs) == ((2, 3), {})


def test_a_task_may_be_named_by_the_last_part_of_its_name(app: App, headrace: Shell) -> None:
    assert headrace("enqueue", "shop:app", "add", "[2]").exit_code == 0
    assert only_job(app).task == "shop.add"


def test_options_reach_the_job(app: App, headrace: Shell) -> None:
    headrace(
        *("enqueue", "shop:app", "shop.add", "[1]", "--queue", "other", "--delay", "2h"),
        *("--priority", "high", "--job-id", "mine"),
    )
    info = only_job(app, "other")
    assert (info.id, info.status, info.priority) == ("mine", JobStatus.SCHEDULED, "high")
    assert 7100 < (info.due_at - info.enqueued_at).total_seconds() < 7300


def test_a_unique_key_answers_with_the_job_that_stands_there(app: App, headrace: Shell) -> None:
    first = headrace("enqueue", "shop:app", "shop.add", "[1]", "--unique-key", "k")
    second = headrace("enqueue", "shop:app", "shop.add", "[1]", "--unique-key", "k")
    assert first.stdout == second.stdout
    assert second.exit_code == 0
    assert "already there" in second.stderr


@pytest.mark.parametrize(
    ("task", "arguments", "result"),
    [
        (
            "types.order",
            '["2026-03-01T10:00:00Z", {"number": 7, "lines": []}]',
            "7 at 2026-03-01T10:00:00+00:00",
        ),
        ("types.blob", '["aGVsbG8="]', 5),
        ("types.keyed", '[{"1": 2, "3": 4.5}]', [1, 3]),
        ("types.customer", '[{"name": "Ada", "born": "1815-12-10T00:00:00Z"}]', "Ada"),
        ("types.many", "[1, 2, 3]", [1, 2, 3, {}]),
        ("types.many", '{"colour": "red"}', [{"colour": "red"}]),
    ],
)
def test_json_becomes_the_annotated_types(
    app: App, headrace: Shell, working: Working, task: str, arguments: str, result: Any
) -> None:
    with working():
        document = headrace.json("enqueue", "shop:app", task, arguments, "--wait", "--timeout", "10")
    assert (document["status"], document["result"]) == ("succeeded", result)


@pytest.mark.parametrize(
    ("task", "arguments", "words"),
    [
        ("shop.add", '["1"]', "Expected `int`, got `str` - at `a`"),
        ("shop.add", "[]", "missing a required argument: 'a'"),
        ("shop.add", "[1, 2, 3]", "too many positional arguments"),
        ("shop.add", '{"a": 1, "c": 2}', "unexpected keyword argument 'c'"),
        ("shop.add", "[1", "no JSON"),
        ("shop.add", "5", "neither a list nor an object"),
        ("shop.add", "[" * 20_000 + "]" * 20_000, "the arguments are nested too deeply"),
        ("types.order", '["tomorrow", {"number": 1, "lines": []}]', "at `when`"),
        ("types.order", '["2026-03-01T10:00:00Z", {"number": 1, "lines": [2]}]', "at `order.lines[0]`"),
        ("types.customer", '[{"born": null}]', "Field required"),
        ("types.many", '[1, "two"]', "at `numbers`"),
        ("types.many", '{"colour": 3}', "at `words`"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_and_nothing_is_sent(
    app: App, headrace: Shell, task: str, arguments: str, words: str
) -> None:
    assert words in headrace.refused("enqueue", "shop:app", task, arguments)

    assert nothing_was_sent(app)


def test_arguments_that_are_written_one_by_one_are_refused_with_the_way_to_write_them(
    app: App, headrace: Shell
) -> None:
    result = headrace("enqueue", "shop:app", "shop.add", "2", "3")
    assert result.exit_code == 2
    assert "write a list, such as '[1, 2]'" in " ".join(result.stderr.split())
    assert nothing_was_sent(app)


def test_an_unknown_task_is_answered_with_those_that_are_nearly_it(app: App, headrace: Shell) -> None:
    assert "did you mean shop.flaky?" in headrace.refused("enqueue", "shop:app", "flakey")
    assert "it has shop.add, shop.flaky" in headrace.refused("enqueue", "shop:app", "xyzzy")
    assert nothing_was_sent(app)


def test_wrong_options_are_refused(app: App, headrace: Shell) -> None:
    assert "no span of time" in headrace.refused("enqueue", "shop:app", "shop.add", "[1]", "--delay", "soon")
    assert "job_id" in headrace.refused("enqueue", "shop:app", "shop.add", "[1]", "--job-id", "a b")
    assert nothing_was_sent(app)


def test_waiting_prints_the_id_and_then_the_result(app: App, headrace: Shell, working: Working) -> None:
    with working():
        result = headrace("enqueue", "shop:app", "shop.add", "[2, 3]", "--wait")
    id, value = result.stdout.splitlines()
    assert (result.exit_code, value) == (0, "5")
    assert app.sync.admin.job(id) is not None


def test_waiting_for_a_task_that_keeps_no_result_ends_well(
    app: App, headrace: Shell, working: Working
) -> None:
    with working():
        result = headrace("enqueue", "shop:app", "shop.quiet", "--wait")
    assert result.exit_code == 0
    assert "succeeded; no result is kept" in result.stderr


def test_waiting_for_a_job_that_dies_prints_its_error_and_fails(
    app: App, headrace: Shell, working: Working
) -> None:
    with working():
        words = headrace.failed("enqueue", "shop:app", "shop.mail", '["ada"]', "--wait")
    assert "Traceback" in words
    assert "dead (exhausted): ValueError: cannot send to ada" in words


def test_waiting_no_longer_than_the_timeout(app: App, headrace: Shell) -> None:
    result = headrace("enqueue", "shop:app", "shop.add", "[1]", "--wait", "--timeout", "10ms", "--json")
    document = msgspec.json.decode(result.stdout)
    assert (result.exit_code, document["status"]) == (1, "queued")
    assert "has not ended after" in document["error"]


def test_waiting_says_when_no_worker_serves_the_queue(
    app: App, headrace: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(enqueue_module, "NOTICE", 0.01)
    monkeypatch.setattr(lookup, "OVERTIME", 30.0)  # a busy machine needs more than a second to look
    words = ("enqueue", "shop:app", "shop.add", "[2, 3]", "--wait", "--timeout", "0.02")
    told = headrace.failed(*words)
    assert "note: no worker serves queue default; the job waits until one starts" in told
    assert "has not ended after 20 ms: no worker serves queue 'default'; start one with: headrace" in told


def test_nothing_is_said_about_workers_when_one_serves_the_queue(
    app: App, headrace: Shell, working: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(enqueue_module, "NOTICE", 0.01)
    words = ("enqueue", "shop:app", "shop.add", "[2, 3]", "--delay", "1h", "--wait", "--timeout", "0.02")
    with working():
        wait_until_sync(app.sync.admin.workers)  # it says after its start that it is there
        told = headrace.failed(*words)
    assert "no worker" not in told
    assert "the job goes on; look at it with: headrace jobs show shop:app" in told
