"""Every button, pressed, on a real worker."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest

from tests.support.waiting import wait_until_sync

from .conftest import Stand, Tab, wait_for

#: Whether the first time on a page reads otherwise by now.
CHANGED = "before => document.querySelector('#live time').textContent !== before"

#: Notes of every row of the live part when it came.
NOTE_ROWS = """() => {
  const note = () => {
    for (const row of document.querySelectorAll('#live tr[data-key]')) seen[row.dataset.key] ??= Date.now();
  };
  const seen = window.seen = {};
  new MutationObserver(note).observe(document.getElementById('live'), {childList: true, subtree: true});
  note();
}"""


def queue(stand: Stand, name: str) -> Any:
    return next(each for each in stand.sample.app.sync.admin.queues() if each.name == name)


def group(stand: Stand, name: str) -> Any:
    [topic] = stand.sample.app.sync.admin.topics()
    return next(each for each in topic.groups if each.group == name)


def test_a_queue_is_paused_resumed_and_purged(stand: Stand, tab: Tab) -> None:
    sample = stand.sample
    sample.enqueue(sample.bulk, 1)
    tab.page.goto(f"{stand.open}/queues/bulk")
    assert "is paused" in tab.press("Pause")
    assert queue(stand, "bulk").paused
    assert "is resumed" in tab.press("Resume")
    assert "cancelled" in tab.press("Purge")
    assert tab.dialogs == ["Cancel all jobs of bulk that wait, are scheduled or retrying?"]
    assert queue(stand, "bulk").queued == 0


def test_a_queue_is_paused_from_the_overview_and_from_its_worker(stand: Stand, tab: Tab) -> None:
    sample = stand.sample
    sample.enqueue(sample.report)
    wait_until_sync(lambda: sample.app.sync.admin.workers())
    tab.page.goto(stand.open)
    assert "nightly is paused" in tab.press("Pause nightly")
    tab.page.goto(f"{stand.open}/workers")
    assert "nightly is resumed" in tab.press("Resume nightly")


def test_a_limit_is_overridden_and_cleared(stand: Stand, tab: Tab) -> None:
    sample = stand.sample
    jobs = [sample.enqueue(sample.charge, number) for number in range(3)]
    wait_until_sync(lambda: sample.app.sync.info(jobs[-1]).waiting_for == "stripe")
    tab.page.goto(f"{stand.open}/limits")
    tab.page.get_by_role("link", name="stripe").click()
    tab.page.get_by_label("Max running").fill("many")
    assert tab.press("Set") == "Failed: max_running is a whole number, such as 10, not 'many'"
    tab.page.get_by_label("Max running").fill("40")
    assert "has new figures" in tab.press("Set")
    assert tab.dialogs == ["Override the limit stripe for all workers?"] * 2
    wait_for(sample, jobs[-1], "running")
    assert tab.page.locator("dt:has-text('Declared') + dd").inner_text().startswith("2 running and 100/s")
    assert "has new figures" in tab.press("Let none start")
    waiting = sample.enqueue(sample.charge, 4)
    wait_until_sync(lambda: sample.app.sync.info(waiting).waiting_for == "stripe")
    tab.page.get_by_role("link", name="jobs of charges").click()
    tab.page.get_by_role("link", name=waiting.id).click()
    tab.page.get_by_role("link", name="the limit stripe").click()
    assert "that the code declares" in tab.press("Clear the override")
    sample.app.sync.admin.purge("charges")
    sample.app.sync.admin.cancel([job.id for job in jobs], queue="charges")


def test_a_task_is_paused_and_resumed(stand: Stand, tab: Tab) -> None:
    sample = stand.sample
    done = sample.enqueue(sample.echo, 1)
    wait_for(sample, done, "succeeded")
    tab.page.goto(f"{stand.open}/queues/echo")
    tab.page.get_by_text("3 tasks").click()
    assert "The task shop.echo is paused" in tab.press("Pause shop.echo")
    tab.page.goto(f"{stand.open}/job?id={done.id}")
    assert "The task shop.echo is resumed" in tab.press("Resume task")
    tab.press("Pause task")
    assert tab.dialogs == ["Start no more jobs of the task shop.echo, in any queue?"]
    tab.page.goto(f"{stand.open}/limits")
    assert "The task shop.echo is resumed" in tab.press("Resume shop.echo")


def test_a_form_that_is_filled_in_outlives_the_updates_of_its_page(stand: Stand, tab: Tab) -> None:
    sample = stand.sample
    tab.page.goto(f"{stand.open}/limit?name=customer")
    field = tab.page.get_by_label("Rate")
    field.fill("5/m")
    waiting = tab.page.locator("dt:has-text('Waiting') + dd")
    before = waiting.inner_text()
    sample.enqueue(sample.invoice, "somebody")
    tab.page.wait_for_function(
        "before => [...document.querySelectorAll('dd')].every(each => each.innerText !== before)", arg=before
    )
    assert field.input_value() == "5/m"


def test_a_job_is_cancelled_retried_and_edited(stand: Stand, tab: Tab) -> None:
    sample = stand.sample
    running = sample.enqueue(sample.render, "on and on")
    wait_for(sample, running, "running")
    tab.page.goto(f"{stand.open}/job?id={running.id}")
    tab.press("Cancel")
    wait_for(sample, running, "cancelled")

    waiting = sample.enqueue(sample.add, 1, delay=3600)
    tab.page.goto(f"{stand.open}/job?id={waiting.id}")
    tab.page.get_by_text("Edit the arguments").click()
    tab.page.get_by_label("By position").fill("[40]")
    tab.page.get_by_label("By name").fill('{"b": 2}')
    assert "Queued" in tab.press("Save and run now")
    assert sample.app.sync.result(waiting, 10) == 42
    tab.page.locator("h2:has-text('Result') + pre").wait_for()
    assert tab.page.locator("h2:has-text('Result') + pre").inner_text() == "42"

    flaky = sample.enqueue(sample.flaky, "closed")
    wait_for(sample, flaky, "retrying")
    tab.page.goto(f"{stand.open}/job?id={flaky.id}")
    assert tab.press("Retry now") == "Queued"
    wait_until_sync(lambda: sample.app.sync.admin.job(flaky.id).failures == 2)  # type: ignore[union-attr]


def test_what_was_written_stays_in_the_form_when_it_does_not_fit(stand: Stand, tab: Tab) -> None:
    waiting = stand.sample.enqueue(stand.sample.add, 1, delay=3600)
    tab.page.goto(f"{stand.open}/job?id={waiting.id}")
    tab.page.get_by_text("Edit the arguments").click()
    tab.page.get_by_label("By position").fill('["forty"]')
    tab.page.get_by_label("By name").fill('{"b": 2}')
    tab.page.get_by_role("button", name="Save", exact=True).click()
    problem = tab.page.locator("form .alert")
    problem.wait_for()
    assert "Expected `int`, got `str` - at `a`" in problem.inner_text()
    assert tab.page.get_by_label("By position").input_value() == '["forty"]'
    assert tab.page.get_by_label("By name").input_value() == '{"b": 2}'
    # The answer has a status that says so, of which the browser complains.
    [complaint] = tab.complaints
    tab.complaints.clear()
    assert "422" in complaint

    tab.page.get_by_label("By position").fill("[40]")
    assert "Queued" in tab.press("Save and run now")
    assert stand.sample.app.sync.result(waiting, 10) == 42


def test_dead_letters_are_replayed_and_discarded_singly_by_kind_and_all(stand: Stand, tab: Tab) -> None:
    sample = stand.sample
    admin = sample.app.sync.admin
    admin.discard(queue="mails")
    admin.discard(topic="orders")
    jobs = [sample.enqueue(sample.mail, f"customer {number}") for number in range(3)]
    other = sample.enqueue(sample.mail, "the server")
    sample.publish(1, "no bill")
    for job in (*jobs, other):
        wait_for(sample, job, "dead")
    wait_until_sync(lambda: group(stand, "billing").dead == 1)

    tab.page.goto(f"{stand.open}/dead")
    kind = tab.page.locator("details.error-group", has_text="customer")
    kind.locator("summary").click()
    kind.get_by_label(f"Select {jobs[0].id}").check()
    kind.get_by_role("button", name="Discard selected").click()
    tab.page.get_by_text("1 discarded").wait_for()
    kind.locator("summary").click()
    kind.get_by_role("button", name="Replay selected").click()
    assert tab.dialogs[-1] == "Nothing is selected."
    kind.get_by_label("Select all that are shown").check()
    kind.get_by_role("button", name="Replay selected").click()
    tab.page.get_by_text("2 replayed").wait_for()
    for job in jobs[1:]:
        wait_for(sample, job, "dead")
    tab.page.goto(f"{stand.open}/dead")
    kind.locator("summary").click()
    kind.get_by_role("button", name="Discard all with this error").click()
    tab.page.get_by_text("2 discarded").wait_for()
    assert [letter.id for letter in admin.dead(queue="mails")] == [other.id]
    assert tab.press("Discard all") == "2 discarded"
    assert not list(admin.dead())


def test_a_schedule_is_run_paused_and_resumed(stand: Stand, tab: Tab) -> None:
    tab.page.goto(f"{stand.open}/schedules")
    assert "Started as job" in tab.press("Run now morning")
    assert "is paused" in tab.press("Pause morning")
    assert "is resumed" in tab.press("Resume morning")


def test_a_group_is_rewound_paused_and_removed(stand: Stand, tab: Tab) -> None:
    ids = [stand.sample.publish(number) for number in range(3)]
    tab.page.goto(f"{stand.open}/topics")
    assert "is paused" in tab.press("Pause audit")
    assert "the beginning" in tab.press("Replay all for audit")
    wait_until_sync(lambda: group(stand, "audit").lag >= 3)
    assert "new events" in tab.press("Skip to the end for audit")
    for place in ("2h", ids[-1]):
        tab.page.get_by_label("Replay audit from a time or the id of an event").fill(place)
        assert "audit reads orders from" in tab.press("Replay audit from there")
    assert "is resumed" in tab.press("Resume audit")
    assert "is removed" in tab.press("Remove audit")


def test_pages_keep_themselves_up_to_date_within_two_seconds(stand: Stand, tab: Tab) -> None:
    """From before the store is changed until the row stands in the page, by the page's own clock, which is
    that of this machine: the browser's driver looks only twice a second, which would be counted too."""
    sample = stand.sample
    tab.page.goto(f"{stand.open}/queues/echo?state=scheduled")
    tab.page.evaluate(NOTE_ROWS)
    took: list[float] = []
    for _ in range(4):
        began = time.time()
        job = sample.enqueue(sample.echo, 1, delay=7200)
        tab.page.get_by_text(job.id).wait_for()
        took.append(tab.page.evaluate("id => window.seen[id]", job.id) / 1000 - began)
    assert sorted(took)[1] <= 2, took  # the machine may have other things to do twice


def test_a_job_is_found_by_its_unique_key_and_shows_what_it_logged(stand: Stand, tab: Tab) -> None:
    sample = stand.sample
    job = sample.enqueue(sample.say, ["reading", "writing"], unique_key="customer-7")
    wait_for(sample, job, "dead")
    held = sample.enqueue(sample.say, ["later"], unique_key="customer-8", delay=3600)
    for key, meant in (("customer-7", job), ("customer-8", held)):
        tab.page.goto(f"{stand.open}/queues/echo")
        tab.page.get_by_label("unique key").fill(key)
        tab.page.get_by_role("button", name="Show").click()
        tab.page.get_by_role("link", name=meant.id).click()
        tab.page.locator(f"dt:has-text('Unique key') + dd:has-text('{key}')").wait_for()
    tab.page.goto(f"{stand.open}/job?id={job.id}")
    rows = tab.page.locator("table.log tbody tr")
    told = [row.split("\t")[1:] for row in rows.all_inner_texts()]
    ends = [["error", f"attempt {number} comes to nothing"] for number in (1, 2)]
    lines = [["warning", "reading"], ["warning", "writing"]]
    assert told == [["1", *line] for line in (*lines, ends[0])] + [["2", *line] for line in (*lines, ends[1])]


def test_who_reads_a_log_is_not_disturbed_when_the_job_ends(stand: Stand, tab: Tab) -> None:
    sample = stand.sample
    job = sample.enqueue(sample.talk, 20)
    wait_for(sample, job, "retrying")
    tab.page.goto(f"{stand.open}/job?id={job.id}")
    region = tab.page.locator(".scroll.log")
    region.focus()
    region.evaluate("here => { here.scrollTop = 40; }")
    assert sample.app.sync.admin.retry_now(job.id)
    tab.page.locator(".facts .state:has-text('succeeded')").wait_for()
    assert region.evaluate("here => [here.scrollTop, here === document.activeElement]") == [40, True]


def test_an_update_leaves_ticks_focus_and_opened_details_alone(stand: Stand, tab: Tab) -> None:
    sample = stand.sample
    first = sample.enqueue(sample.mail, "steady customer 1")
    wait_for(sample, first, "dead")
    tab.page.goto(f"{stand.open}/dead?queue=mails")
    kind = tab.page.locator("details.error-group", has_text="steady")
    if kind.get_attribute("open") is None:
        kind.locator("summary").click()
    box = kind.get_by_label(f"Select {first.id}")
    box.check()
    box.focus()
    other = sample.enqueue(sample.mail, "news of another kind")
    wait_for(sample, other, "dead")
    tab.page.locator("details.error-group", has_text="another kind").wait_for()
    assert box.is_checked()
    assert kind.get_attribute("open") is not None
    assert box.evaluate("box => box === document.activeElement")


@pytest.mark.parametrize("stand", ["sqlite"], indirect=True)
def test_an_update_leaves_what_is_being_written_alone(stand: Stand, tab: Tab) -> None:
    sample = stand.sample
    job = sample.enqueue(sample.add, 1, delay=3600)
    held: list[Any] = []
    tab.page.route(re.compile("/live"), lambda route: held.append(route))
    tab.page.goto(f"{stand.open}/job?id={job.id}")
    tab.page.get_by_text("Edit the arguments").click()
    field = tab.page.get_by_label("By position")
    field.fill("[4")
    field.evaluate("field => { window.writing = field; }")
    enqueued = tab.page.locator("#live time").first
    shown = enqueued.inner_text()
    held[0].continue_()  # only now does the first update come
    for text in ("0", "]"):  # the first update, and one after it
        tab.page.wait_for_function(CHANGED, arg=shown)
        tab.page.keyboard.type(text)
        shown = enqueued.inner_text()
    assert field.input_value() == "[40]"
    assert tab.page.evaluate("window.writing === document.activeElement")
