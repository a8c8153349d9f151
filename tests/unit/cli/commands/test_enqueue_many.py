"""`headrace enqueue --from`: many jobs of one task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace import App, BackendUnavailable, JobStatus
from headrace.cli.commands import enqueue as enqueue_module
from headrace.cli.output.progress import ProgressBar
from tests.unit.cli.conftest import Shell
from tests.unit.cli.sample_app import make_shop


def jobs(app: App, queue: str = "default") -> list[tuple[Any, ...]]:
    """The arguments of all that is stored; ids of one millisecond are in no order."""
    contents = [app.sync.admin.contents(info.id) for info in app.sync.admin.jobs(queue)]
    return sorted(each.args for each in contents if each is not None)


def write(lines: str) -> str:
    Path("numbers.jsonl").write_text(lines, encoding="utf-8")
    return "numbers.jsonl"


def test_each_line_is_a_job(app: App, headrace: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enqueue_module, "STEP", 2)
    path = write('[1, 2]\n{"a": 3}\n[4]\r\n[5, 6]\n[7]\n\n')
    result = headrace("enqueue", "shop:app", "add", "--from", path)
    assert (result.exit_code, result.stdout) == (0, "5 jobs stored\n")
    assert jobs(app) == [(1, 2), (3,), (4,), (5, 6), (7,)]


def test_options_are_those_of_all(app: App, headrace: Shell) -> None:
    path = write("[1]\n[2]")
    words = ("enqueue", "shop:app", "shop.add", "--from", path, "--queue", "slow", "--delay", "1h")
    document = headrace.json(*words)
    assert (document["task"], document["duplicates"]) == ("shop.add", 0)
    found = [app.sync.admin.job(id) for id in document["ids"]]
    assert [(info.queue, info.status) for info in found if info] == [("slow", JobStatus.SCHEDULED)] * 2


def test_lines_may_come_from_standard_input(app: App, headrace: Shell) -> None:
    result = headrace("enqueue", "shop:app", "shop.mail", "--from", "-", typed='["ada\u2028bob"]\n["bob"]\n')
    assert result.stdout == "2 jobs stored\n"
    assert jobs(app, "mails") == [("ada\u2028bob",), ("bob",)]


def test_nothing_is_sent_when_one_line_does_not_fit(app: App, headrace: Shell) -> None:
    path = write('[1]\n[2]\n["x"]\n')
    printed = headrace.refused("enqueue", "shop:app", "shop.add", "--from", path)
    assert "line 3: the arguments do not fit shop.add" in printed
    assert "nothing was sent" in printed
    assert not app.sync.admin.queues()


def test_empty_lines_are_no_jobs_and_count_as_lines(app: App, headrace: Shell) -> None:
    words = ("enqueue", "shop:app", "shop.quiet", "--from")
    assert headrace(*words, write("[]\n\n  \n[]\n")).stdout == "2 jobs stored\n"
    assert "line 3: " in headrace.refused(*words, write("[]\n\n[1]\n"))


def test_an_empty_file_is_no_job(app: App, headrace: Shell) -> None:
    assert headrace("enqueue", "shop:app", "shop.add", "--from", write("\n")).stdout == "0 jobs stored\n"


def test_what_is_for_one_job_is_refused(app: App, headrace: Shell) -> None:
    path = write("[1]")
    words = ("enqueue", "shop:app", "shop.add", "--from", path)
    assert "JSON and --wait cannot be given" in headrace.refused(*words[:3], "[1]", *words[3:], "--wait")
    assert "--job-id cannot" in headrace.refused(*words, "--job-id", "mine")
    assert "cannot be read" in headrace.refused(*words[:4], "missing.jsonl")


def test_a_full_queue_says_how_many_were_stored(
    app: App, headrace: Shell, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(enqueue_module, "STEP", 2)
    full = App(url, queue_limit=3)
    full.task(name="shop.add")(make_shop(url).tasks["shop.add"].__wrapped__)
    monkeypatch.setattr("headrace.cli.commands.enqueue.located", lambda target: full)
    printed = headrace.failed("enqueue", "shop:app", "shop.add", "--from", write("[1]\n[2]\n[3]\n[4]\n"))
    assert "stored before that: 3 jobs" in printed
    assert len(jobs(app)) == 3


@pytest.mark.parametrize("wrong", [BackendUnavailable("the store is away"), KeyboardInterrupt()])
def test_whoever_is_cut_short_says_how_many_were_stored(
    app: App, headrace: Shell, monkeypatch: pytest.MonkeyPatch, wrong: BaseException
) -> None:
    def send(app: App, calls: list[Any], before: int, whole: Any = enqueue_module._sent) -> Any:
        if before:
            monkeypatch.setattr(app.sync, "enqueue_many", failing)
        return whole(app, calls, before)

    def failing(calls: Any) -> Any:
        raise wrong

    monkeypatch.setattr(enqueue_module, "STEP", 2)
    monkeypatch.setattr(enqueue_module, "_sent", send)
    printed = headrace.failed("enqueue", "shop:app", "shop.add", "--from", write("[1]\n[2]\n[3]\n[4]\n"))
    told = "stored before that: 2 jobs" if isinstance(wrong, Exception) else "at least 2 are stored"
    assert told in printed
    assert len(jobs(app)) == 2


def test_progress_is_told_step_by_step(app: App, headrace: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    monkeypatch.setattr(enqueue_module, "STEP", 2)
    monkeypatch.setattr(ProgressBar, "reached", lambda steps, count: told.append(count))
    headrace("enqueue", "shop:app", "shop.add", "--from", write("[1]\n[2]\n[3]\n"))
    assert told == [2, 3]
