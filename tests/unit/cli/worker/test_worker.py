"""`headrace worker`: exit codes, the banner, and what children are told."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from headrace import App, JobStatus
from headrace.cli.main import cli
from headrace.cli.worker import command as worker_module
from headrace.cli.worker.supervisor import NUMBER, SUPERVISOR
from tests.support.intercepted_store import InterceptedStore

SHOP = """
from headrace import App, RetryPolicy

app = App("memory://")
ran = []

@app.task(name="add")
async def add(a: int, b: int) -> int:
    ran.append((a, b))
    return a + b

orders = app.topic("orders", int)
billed = []

@orders.subscribe(group="billing", start="beginning")
async def bill(event: int) -> None:
    billed.append(event)

@app.topic("returns").subscribe(group="billing")
async def pay_back(event: object) -> None: ...

@app.task(name="fail", queue="mails", retry=RetryPolicy.none())
async def fail() -> int:
    raise ValueError("no")
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A module with an app, which the command line will find under the name `cli_shop`."""
    (tmp_path / "cli_shop.py").write_text(SHOP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    # The root logger is pytest's here, and no command may end the process that tests it.
    monkeypatch.setattr(worker_module, "start_logging", lambda level, form: None)
    monkeypatch.setattr(os, "_exit", pytest.fail)
    import cli_shop  # type: ignore[import-not-found]

    yield cli_shop
    cli_shop.app.sync.close()
    del sys.modules["cli_shop"]


def run(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(cli, arguments, env=environment, prog_name="headrace")


def test_a_burst_runs_what_is_there_and_exits_with_0(shop: Any) -> None:
    shop.app.sync.enqueue(shop.add.call(2, 3))
    result = run("worker", "cli_shop:app", "--burst")
    assert result.exit_code == 0, result.output
    assert shop.ran == [(2, 3)]


def test_the_environment_may_name_the_app(shop: Any) -> None:
    shop.app.sync.enqueue(shop.add.call(2, 3))
    result = run("worker", "--burst", HEADRACE_APP="cli_shop:app")
    assert result.exit_code == 0, result.output
    assert shop.ran == [(2, 3)]


def test_a_burst_exits_with_0_also_when_jobs_ended_dead(shop: Any) -> None:
    job = shop.app.sync.enqueue(shop.fail.call())
    assert run("worker", "cli_shop:app", "--burst").exit_code == 0
    assert shop.app.sync.status(job) is JobStatus.DEAD


def test_a_burst_handles_events_of_the_topics_that_are_named(shop: Any) -> None:
    shop.app.sync.publish("orders", 7)
    job = shop.app.sync.enqueue(shop.add.call(2, 3))
    result = run("worker", "cli_shop:app", "--burst", "--topics", "returns")
    assert "returns/billing" in result.stderr
    assert "orders/billing" not in result.stderr
    assert (shop.billed, shop.app.sync.status(job)) == ([], JobStatus.SUCCEEDED)
    job = shop.app.sync.enqueue(shop.add.call(2, 3))
    assert run("worker", "cli_shop:app", "--burst", "--topics", "orders", "--queues", "").exit_code == 0
    assert (shop.billed, shop.app.sync.status(job)) == ([7], JobStatus.QUEUED)


def test_a_topic_that_nothing_is_subscribed_to_is_refused(shop: Any) -> None:
    result = run("worker", "cli_shop:app", "--burst", "--topics", "mails")
    assert result.exit_code == 2
    assert "nothing in this app is subscribed to mails" in result.stderr


def test_the_banner_says_what_is_served_and_how_to_stop(shop: Any) -> None:
    result = run("worker", "cli_shop:app", "--burst", "--concurrency", "7", "--grace", "3", "--lease", "120")
    assert "cli_shop:app, 2 tasks" in result.stderr
    assert shop.app.description in result.stderr
    assert "default, mails" in result.stderr
    assert "orders/billing, returns/billing" in result.stderr
    assert "7 on " in result.stderr
    assert "lease 2 min, grace 3 s" in result.stderr
    assert "Ctrl-C lets running jobs end" in result.stderr
    assert result.stdout == ""


def test_the_banner_points_out_a_queue_that_no_task_is_declared_for(shop: Any) -> None:
    assert "note    no task is declared for mials\n" in _told("mails,mials")
    assert "no task is declared" not in _told("mails")


def _told(queues: str) -> str:
    return run("worker", "cli_shop:app", "--burst", "--queues", queues).stderr


def test_under_a_supervisor_there_is_no_banner(shop: Any) -> None:
    result = run("worker", "cli_shop:app", "--burst", **{SUPERVISOR: str(os.getppid()), NUMBER: "1"})
    assert result.exit_code == 0
    assert result.stderr == ""


def test_only_the_queues_asked_for_are_served(shop: Any) -> None:
    job = shop.app.sync.enqueue(shop.fail.call())
    shop.app.sync.enqueue(shop.add.call(2, 3))
    assert run("worker", "cli_shop:app", "--burst", "--queues", " mails , ").exit_code == 0
    assert shop.app.sync.status(job) is JobStatus.DEAD
    assert shop.ran == []


def test_a_queue_may_have_slots(shop: Any) -> None:
    told = _told("mails:3,default")
    assert "mails:3, default" in told
    assert "no task is declared" not in told
    assert "note    no task is declared for team:mails\n" in _told("team:mails")
    result = run("worker", "cli_shop:app", "--burst", "--queues", "mails:0")
    assert result.exit_code == 2
    assert "the slots of queue 'mails' must be a whole number from 1" in result.stderr


def test_every_flag_has_a_variable_and_flags_win(shop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []
    make = App.worker

    def noted(self: App, **options: Any) -> Any:
        asked.append(options)
        return make(self, **options)

    monkeypatch.setattr(App, "worker", noted)
    environment = {
        "HEADRACE_CONCURRENCY": "5",
        "HEADRACE_CHILDREN": "2",
        "HEADRACE_GRACE": "6",
        "HEADRACE_LEASE": "7",
        "HEADRACE_QUEUES": "mails:3",
        "HEADRACE_TOPICS": "orders, returns",
        "HEADRACE_BURST": "1",
    }
    assert run("worker", "cli_shop:app", "--grace", "0", **environment).exit_code == 0
    assert asked == [
        {
            "queues": {"mails": 3},
            "topics": ["orders", "returns"],
            "concurrency": 5,
            "children": 2,
            "lease": 7.0,
            "grace": 0.0,
        }
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        ["worker"],
        ["worker", "cli_shop:app", "--concurrency", "0"],
        ["worker", "cli_shop:app", "--concurrency", "many"],
        ["worker", "cli_shop:app", "--grace", "-1"],
        ["worker", "cli_shop:app", "--lease", "0"],
        ["worker", "cli_shop:app", "--processes", "0"],
        ["worker", "cli_shop:app", "--no-such-option"],
        ["worker", "cli_shop:app", "--queues", "two words", "--burst"],
        ["worker", "cli_shop:app", "--queues", ",", "--burst"],
        ["worker", "cli_shop:nothing"],
        ["worker", "no_such_module:app"],
        ["worker", "nonsense"],
        ["no-such-command"],
    ],
)
def test_wrong_usage_exits_with_2_and_one_clear_line(shop: Any, arguments: list[str]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Error: " in result.stderr
    assert "Traceback" not in result.output


def test_a_store_that_fails_exits_with_1(shop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from headrace import BackendUnavailable

    async def away() -> None:
        raise BackendUnavailable("the store is away: start it")

    store = InterceptedStore()
    store.intercept("open", away)
    monkeypatch.setattr(shop, "app", App(store=store))
    result = run("worker", "cli_shop:app", "--burst")
    assert result.exit_code == 1
    assert "Error: the store is away: start it" in result.stderr


def test_several_processes_are_given_the_same_arguments(shop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[str, int, bool, list[str]]] = []

    class Noted:
        def __init__(self, target: str, processes: int, *, burst: bool, arguments: list[str]) -> None:
            made.append((target, processes, burst, arguments))

        def run(self) -> int:
            return 3

    monkeypatch.setattr(worker_module, "Supervisor", Noted)
    result = run(
        "worker", "cli_shop:app", "--burst", "--grace", "0", "--queues", "a,b", HEADRACE_PROCESSES="4"
    )
    assert result.exit_code == 3
    ((target, processes, burst, arguments),) = made
    assert (target, processes, burst) == ("cli_shop:app", 4, True)
    pairs = dict(itertools.pairwise(arguments))
    assert pairs["--queues"] == "a,b"
    assert float(pairs["--grace"]) == 0
    assert pairs["--concurrency"] == "100"
    assert pairs["--processes"] == "1"
    assert "--burst" in arguments


def test_the_version_is_printed() -> None:
    result = run("version")
    assert result.exit_code == 0
    assert result.stdout.startswith("headrace ")
    assert "Python 3." in result.stdout
    assert "SQLite 3." in result.stdout


def test_help_is_there_for_both_spellings() -> None:
    for flag in ("-h", "--help"):
        result = run("worker", flag)
        assert result.exit_code == 0
        assert "--concurrency" in result.stdout
