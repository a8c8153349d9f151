from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any

import pytest

from headrace import App, JobStatus
from tests.support.waiting import wait_until, wait_until_sync
from tests.unit.cli.conftest import Shell

Enqueue = Callable[..., Any]
Drain = Callable[[], None]
Working = Callable[[], AbstractContextManager[None]]


def ids(shell: Shell, *words: str) -> list[str]:
    return [job["id"] for job in shell.json("jobs", "shop:app", *words)]


@pytest.fixture
def story(app: App, enqueue: Enqueue, drain: Drain) -> None:
    """A job in each state that is worth telling."""
    enqueue("shop.add", 1, job_id="succeeded")
    enqueue("shop.mail", "ada", job_id="dead")
    enqueue("shop.flaky", job_id="retrying")
    drain()
    enqueue("shop.add", 2, job_id="scheduled", delay=60)
    enqueue("shop.add", 3, job_id="queued")


def test_jobs_are_listed_with_the_newest_first(headrace: Shell, enqueue: Enqueue) -> None:
    jobs = [enqueue("shop.add", number, delay=60 * (number % 2)).id for number in range(4)]
    assert ids(headrace) == jobs[::-1]
    assert ids(headrace, "--state", "queued", "--limit", "1") == [jobs[2]]


@pytest.mark.usefixtures("story")
def test_jobs_of_all_states_are_listed_together(headrace: Shell) -> None:
    assert ids(headrace) == ["queued", "scheduled", "retrying", "dead", "succeeded"]


@pytest.mark.usefixtures("story")
def test_jobs_are_chosen_by_queue_state_and_task(headrace: Shell) -> None:
    assert ids(headrace, "--queue", "mails") == ["dead"]
    assert ids(headrace, "--state", "queued", "--state", "scheduled") == ["queued", "scheduled"]
    assert ids(headrace, "--task", "shop.add") == ["queued", "scheduled", "succeeded"]
    assert ids(headrace, "--task", "shop.add", "--state", "succeeded") == ["succeeded"]


@pytest.mark.usefixtures("story")
def test_jobs_are_chosen_by_age(headrace: Shell) -> None:
    assert ids(headrace, "--older-than", "1h") == []
    assert len(ids(headrace, "--newer-than", "1h")) == 5
    assert ids(headrace, "--older-than", "0", "--newer-than", "0") == []


@pytest.mark.usefixtures("story")
def test_a_listing_that_was_cut_says_so(headrace: Shell) -> None:
    result = headrace("jobs", "shop:app", "--limit", "2")
    assert "scheduled" not in result.stdout
    assert "more than these 2" in result.stderr
    assert headrace("jobs", "shop:app", "--limit", "5").stderr == ""


@pytest.mark.usefixtures("story")
def test_the_table_tells_what_one_wants_to_know_next(headrace: Shell) -> None:
    lines = {line.split()[0]: line for line in headrace("jobs", "list", "shop:app").stdout.splitlines()}
    assert "due in" in lines["retrying"]
    assert "OSError: the bank is closed" in lines["retrying"]
    assert "ValueError: cannot send to ada (exhausted)" in lines["dead"]
    assert "due in" in lines["scheduled"]
    assert "ran" in lines["succeeded"]


def test_nothing_to_list_is_said_and_an_unknown_queue_is_remarked_on(
    app: App, headrace: Shell, enqueue: Enqueue
) -> None:
    assert headrace("jobs", "shop:app").stdout == "no jobs\n"
    enqueue("shop.add", 1)
    result = headrace("jobs", "shop:app", "--queue", "defualt")
    assert (result.exit_code, result.stdout) == (0, "no jobs\n")
    assert "knows no queue 'defualt'; did you mean default?" in result.stderr


def test_an_unknown_state_is_refused(app: App, headrace: Shell) -> None:
    assert "'lost' is not one of" in headrace.refused("jobs", "shop:app", "--state", "lost")


@pytest.mark.usefixtures("story")
def test_json_has_every_field_uncut_and_iso_times(headrace: Shell) -> None:
    [job] = headrace.json("jobs", "shop:app", "--queue", "mails")
    assert (job["id"], job["status"], job["task"], job["reason"]) == (
        "dead",
        "dead",
        "shop.mail",
        "exhausted",
    )
    assert datetime.fromisoformat(job["enqueued_at"]) <= datetime.fromisoformat(job["ended_at"])
    [entry] = job["trail"]
    assert set(entry) == {"at", "what", "worker", "text"}
    assert (entry["what"], entry["text"]) == ("failed", "ValueError: cannot send to ada")


@pytest.mark.usefixtures("story")
def test_a_job_is_shown_with_its_arguments_its_story_and_its_traceback(headrace: Shell) -> None:
    text = headrace("jobs", "show", "shop:app", "dead").stdout
    assert 'to = "ada"' in text
    assert "dead (exhausted)" in text
    assert text.index("enqueued") < text.index("failed")
    assert "Traceback (most recent call last)" in text


@pytest.mark.usefixtures("story")
def test_a_job_is_shown_without_its_code_too(headrace: Shell, url: str) -> None:
    assert '[0] = "ada"' in headrace("jobs", "show", "--url", url, "dead").stdout


@pytest.mark.usefixtures("story")
def test_a_job_that_succeeded_is_shown_with_its_result(headrace: Shell) -> None:
    assert headrace.json("jobs", "show", "shop:app", "succeeded")["result"] == 2


def test_headers_and_named_arguments_are_shown(app: App, headrace: Shell) -> None:
    task: Any = app.tasks["types.many"]
    job = app.sync.enqueue(task.call(1, colour="red").with_(headers={"trace": "7"}))
    document = headrace.json("jobs", "show", "shop:app", job.id)
    assert (document["args"], document["kwargs"]) == ([1], {"colour": "red"})
    assert document["headers"] == {"trace": "7"}
    text = headrace("jobs", "show", "shop:app", job.id).stdout
    assert 'colour = "red"' in text
    assert "trace: 7" in text


def test_what_would_steer_a_terminal_is_shown_as_text(app: App, headrace: Shell, enqueue: Enqueue) -> None:
    job = enqueue("shop.mail", "[red]\x1b[31m")
    text = headrace("jobs", "show", "shop:app", job.id).stdout
    assert "\x1b" not in text
    assert "[red]" in text


def test_how_far_a_running_job_has_come_is_shown(
    app: App, headrace: Shell, enqueue: Enqueue, working: Working
) -> None:
    def come() -> object:
        return headrace.json("jobs", "show", "shop:app", "long")["progress"]

    enqueue("shop.read", job_id="long")
    with working():
        wait_until_sync(come)
        assert "40% reading \\x1b[31mrows, for " in headrace("jobs", "shop:app").stdout
        assert "40% reading \\x1b[31mrows (" in headrace("jobs", "show", "shop:app", "long").stdout
        [listed] = headrace.json("jobs", "shop:app")
        assert listed["progress"] == come()
        assert (listed["progress"]["fraction"], set(listed["progress"])) == (0.4, {"fraction", "text", "at"})
        app.sync.admin.cancel(["long"])


class Reversed:
    """A codec."""

    def encode(self, payload: bytes, /) -> bytes:
        return payload[::-1]

    decode = encode


def test_arguments_and_results_that_cannot_be_read_do_not_hide_the_rest(headrace: Shell, url: str) -> None:
    app = App(url, codec=Reversed())

    @app.task(name="wrapped")
    async def wrapped(word: str) -> str:
        return word

    async def work() -> None:
        async with app, app.worker():
            job = await wrapped.with_(job_id="over").enqueue("hello")
            await job.wait(10)
            await wrapped.with_(job_id="waiting", delay=60).enqueue("hello")

    asyncio.run(work())
    document = headrace.json("jobs", "show", "--url", url, "waiting")
    assert (document["task"], document["args"]) == ("wrapped", None)
    assert "cannot be read" in document["problem"]
    assert "cannot be read" in headrace("jobs", "show", "--url", url, "waiting").stdout
    assert headrace.json("jobs", "show", "--url", url, "over")["status"] == "succeeded"


def test_a_job_that_nobody_knows_is_a_failure(app: App, headrace: Shell) -> None:
    assert "there is no job nix" in headrace.failed("jobs", "show", "shop:app", "nix")
    assert "Expected 'ID', not 'one two'" in headrace.refused("jobs", "show", "shop:app", "one", "two")
    assert "Missing argument 'ID'" in headrace.refused("jobs", "show", "--app", "shop:app")


@pytest.mark.usefixtures("story")
def test_waiting_jobs_are_cancelled_and_others_are_told_of(app: App, headrace: Shell) -> None:
    result = headrace("cancel", "shop:app", "scheduled", "nix", "succeeded", "queued")
    assert result.exit_code == 1
    assert result.stdout == "scheduled cancelled\nqueued cancelled\n"
    assert "there is no job nix" in result.stderr
    assert "succeeded has ended: it is succeeded" in result.stderr
    info = app.sync.admin.job("scheduled")
    assert info is not None
    assert info.status is JobStatus.CANCELLED
    assert r"there is no job nix\x9b2J" in headrace("cancel", "shop:app", "nix\x9b2J").stderr


@pytest.mark.usefixtures("story")
def test_waiting_and_dead_jobs_are_retried_now(app: App, headrace: Shell) -> None:
    result = headrace("retry", "shop:app", "scheduled", "retrying", "dead")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[1] == "retrying was retrying, is queued now"
    assert set(ids(headrace, "--state", "queued")) == {"queued", "retrying", "scheduled", "dead"}
    assert "only scheduled, retrying or dead" in headrace.failed("retry", "shop:app", "succeeded")


def test_a_dead_job_whose_key_is_taken_stays_dead(
    app: App, headrace: Shell, enqueue: Enqueue, drain: Drain
) -> None:
    enqueue("shop.mail", "ada", job_id="first", unique_key="k")
    drain()
    enqueue("shop.mail", "ada", job_id="second", unique_key="k")
    assert "another job holds its unique key" in headrace.failed("retry", "shop:app", "first")
    result = headrace("dead", "replay", "shop:app", "first")
    assert result.stdout == "0 dead letters replayed\n"
    assert "first stays dead" in result.stderr


# --- events that a group holds -------------------------------------------------------------------------


@pytest.fixture
def dead_event(app: App, publish: Callable[..., str], drain: Callable[[], None]) -> str:
    id = publish(1)
    drain()
    return id


def test_the_events_that_groups_have_in_hand_are_listed(app: App, headrace: Shell, dead_event: str) -> None:
    [event] = headrace.json("jobs", "shop:app", "--topic", "orders")
    assert (event["id"], event["topic"], event["group"]) == (dead_event, "orders", "billing")
    assert (event["status"], event["task"]) == ("dead", "Placed")
    assert "orders/billing" in headrace("jobs", "shop:app", "--topic", "orders", "--group", "billing").stdout
    result = headrace("jobs", "shop:app", "--topic", "orders", "--group", "audit")
    assert result.stdout == "no events\n"
    result = headrace("jobs", "shop:app", "--topic", "orders", "--group", "audti")
    assert "orders knows no group 'audti'; did you mean audit?" in result.stderr


def test_one_is_shown_retried_and_cancelled(app: App, headrace: Shell, dead_event: str) -> None:
    text = headrace("jobs", "show", "shop:app", dead_event).stdout
    assert "kind" in text
    assert '{"number":1,"card":"***","at":null}' in text
    where = ("--topic", "orders", "--group", "billing")
    assert headrace("retry", "shop:app", dead_event).stdout == f"{dead_event} was dead, is queued now\n"
    assert f"event {dead_event} is queued" in headrace.failed("retry", "shop:app", dead_event, *where)
    assert headrace("cancel", "shop:app", dead_event, *where).stdout == f"{dead_event} cancelled\n"
    assert f"event {dead_event} has ended: it is cancelled" in headrace.failed(
        "cancel", "shop:app", dead_event
    )
    words = headrace.failed("jobs", "show", "shop:app", "nix", *where)
    assert "there is no event nix in group billing of orders" in words


def test_a_unique_key_leads_to_who_holds_it_and_else_to_those_that_had_it(
    app: App, headrace: Shell, enqueue: Enqueue, drain: Drain
) -> None:
    enqueue("shop.mail", "ada", job_id="dead", unique_key="customer-7")
    enqueue("shop.add", 1, job_id="other", unique_key="customer-8", delay=60)
    drain()
    assert ids(headrace, "--key", "customer-7") == ["dead"]
    enqueue("shop.mail", "ada", job_id="holder", unique_key="customer-7", delay=60)
    assert ids(headrace, "--key", "customer-7") == ["holder"]
    assert ids(headrace, "--key", "customer-7", "--state", "dead") == ["dead"]
    assert ids(headrace, "--key", "customer-7", "--queue", "default") == []
    assert ids(headrace, "--key", "customer-8", "--task", "shop.add") == ["other"]
    assert ids(headrace, "--key", "customer") == []
    assert headrace.json("jobs", "show", "shop:app", "holder")["unique_key"] == "customer-7"
    assert "unique key  customer-7" in headrace("jobs", "show", "shop:app", "holder").stdout


def test_names_of_arguments_do_not_steer_the_terminal(app: App, headrace: Shell) -> None:
    job = app.sync.enqueue(app.tasks["types.many"].call(1, **{"\x1b[31mword": "x"}))
    text = headrace("jobs", "show", "shop:app", job.id).stdout
    assert "[0] = 1" in text
    assert '\\x1b[31mword = "x"' in text
    assert "\x1b" not in text


def test_what_its_attempts_logged_is_shown(app: App, headrace: Shell, enqueue: Enqueue, drain: Drain) -> None:
    job = enqueue("shop.say", "\x1b[31m[red]second")
    drain()
    document = headrace.json("jobs", "show", "shop:app", job.id)
    lines = [(line["attempt"], line["level"], line["text"]) for line in document["log"]]
    assert lines == [
        (2, "warning", "begin"),
        (2, "warning", "\x1b[31m[red]second"),
        (2, "error", "end of attempt 2"),
    ]
    assert document["log_dropped"] == 3
    assert all(datetime.fromisoformat(line["at"]) for line in document["log"])
    text = headrace("jobs", "show", "shop:app", job.id).stdout
    assert "log (3 lines before these were not kept)" in text
    assert "\\x1b[31m[red]second" in text
    assert "\x1b" not in text
    assert "log" not in headrace.json("jobs", "shop:app")[0]


def test_jobs_are_found_by_a_value_in_their_arguments(
    app: App, headrace: Shell, enqueue: Enqueue, drain: Drain
) -> None:
    ended = enqueue("shop.add", 123, 1)
    drain()
    waiting = enqueue("shop.add", 4, 123, delay=3600)
    enqueue("shop.add", 1234, 1, delay=3600)
    found = headrace.json("jobs", "shop:app", "--argument", "123")
    assert {info["id"] for info in found} == {ended.id, waiting.id}


def test_a_job_that_waits_says_for_what(app: App, headrace: Shell) -> None:
    async def post(account: int) -> None: ...

    task = app.task(name="shop.post", queue="ledger", ordered_by="account", max_running=1)(post)
    first, second = [app.sync.enqueue(task.call(7)) for _ in range(2)]
    held = app.sync.enqueue(task.call(8))

    async def hold_back() -> None:
        async with app, app.worker(queues=["other"]):
            pass
        async with app:
            await app.admin.set_limit("task:shop.post", max_running=0)
            async with app.worker(queues=["ledger"]):
                await wait_until(lambda: is_held_back(app, held.id))

    asyncio.run(hold_back())
    shown = {line.split()[0]: line for line in headrace("jobs", "shop:app").stdout.splitlines()}
    assert "waits: task:shop.post" in shown[held.id]
    assert "waits in order" in shown[second.id]
    assert "waits for  the limit task:shop.post" in headrace("jobs", "show", "shop:app", first.id).stdout
    assert "waits for  an earlier job" in headrace("jobs", "show", "shop:app", second.id).stdout


async def is_held_back(app: App, id: str) -> bool:
    job = await app.admin.job(id)
    return job is not None and job.waiting_for == "task:shop.post"


@pytest.mark.parametrize("listing", ["jobs", "dead"])
def test_a_task_that_the_app_does_not_know_is_remarked_on(app: App, headrace: Shell, listing: str) -> None:
    assert headrace(listing, "shop:app", "--task", "shop.add").stderr == ""
    result = headrace(listing, "shop:app", "--task", "add")
    assert result.exit_code == 0
    assert "the app knows no task 'add'; did you mean shop.add?" in result.stderr
