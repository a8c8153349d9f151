"""Tasks of Django as jobs: enqueued, run by a worker, and asked about."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import django
import pytest
from django.db import connection, connections
from django.test import override_settings
from django.utils import timezone
from django.utils.safestring import mark_safe
from django_shop import tasks
from django_shop.models import Order

from headrace import ConfigurationError, InvalidPayload, JobStatus, RetryPolicy
from headrace.django import Backend, get_app
from headrace.django.backend import priority_of
from headrace.django.framework import (
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_backends,
    task_finished,
    task_started,
)
from headrace.django.results import class_path

from .conftest import Configure, run_jobs

READY, SUCCESSFUL, FAILED = TaskResultStatus.READY, TaskResultStatus.SUCCESSFUL, TaskResultStatus.FAILED


def test_the_backend_supports_everything(configured: Configure) -> None:
    configured()
    backend = task_backends["default"]
    assert isinstance(backend, Backend)
    assert backend.supports_defer
    assert backend.supports_async_task
    assert backend.supports_get_result
    assert backend.supports_priority
    assert list(backend.check()) == []


def test_a_task_runs_in_a_worker_and_its_result_is_known(configured: Configure) -> None:
    configured()
    result = tasks.add.enqueue(2, b=3)
    assert (result.status, result.attempts) == (READY, 0)
    run_jobs()
    found = tasks.add.get_result(result.id)
    assert (found.status, found.return_value, found.attempts) == (SUCCESSFUL, 5, 1)
    assert (found.args, found.kwargs) == ([2], {"b": 3})
    assert found.enqueued_at == result.enqueued_at <= found.started_at <= found.finished_at
    assert found.started_at == found.last_attempted_at
    assert found.worker_ids == [worker_of(result.id)]


def worker_of(id: str) -> str:
    info = get_app().sync.admin.job(id)
    assert info is not None
    return info.worker


def test_an_unknown_result_does_not_exist(configured: Configure) -> None:
    configured()
    with pytest.raises(TaskResultDoesNotExist):
        tasks.add.get_result("unknown")
    app = get_app()
    foreign = app.sync.enqueue(app.remote("another.program").call())
    with pytest.raises(TaskResultDoesNotExist):
        task_backends["default"].get_result(foreign.id)


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (-100, "low"),
        (-34, "low"),
        (-33, "normal"),
        (0, "normal"),
        (33, "normal"),
        (34, "high"),
        (100, "high"),
    ],
)
def test_priorities_are_low_normal_and_high_by_thirds(number: int, name: str, configured: Configure) -> None:
    configured()
    task = tasks.add.using(priority=number)
    assert priority_of(task) == name
    result = task.enqueue(1, 2)
    info = get_app().sync.admin.job(result.id)
    assert info is not None
    assert info.priority == name
    assert tasks.add.get_result(result.id).task == task  # with the number itself


def test_a_deferred_task_waits(configured: Configure) -> None:
    configured()
    later = datetime.now(UTC) + timedelta(hours=1)
    task = tasks.mail.using(run_after=later)
    result = task.enqueue(7)
    run_jobs()
    assert get_app().job(result.id).sync.status() is JobStatus.SCHEDULED
    found = tasks.mail.get_result(result.id)
    assert (found.status, found.task) == (READY, task)


def test_without_zones_times_are_those_of_the_project_and_not_of_the_request(configured: Configure) -> None:
    configured()
    settings = override_settings(USE_TZ=False, TIME_ZONE="Asia/Tokyo")
    with settings, timezone.override("America/New_York"):
        before = timezone.now()
        result = tasks.add.using(run_after=before).enqueue(2, b=3)
        run_jobs()
        found = tasks.add.get_result(result.id)
        assert found.task.run_after == before
        near = timedelta(milliseconds=1)  # the time of an id has whole milliseconds
        assert before - near <= result.enqueued_at == found.enqueued_at <= found.started_at
        assert found.started_at <= found.finished_at <= timezone.now()
        assert found.status == SUCCESSFUL  # it did not wait for the hour of another zone


def test_texts_of_django_are_arguments_and_other_types_are_refused(configured: Configure) -> None:
    configured()
    result = tasks.mail.enqueue(7, text=mark_safe("<b>"))
    with pytest.raises(TypeError, match="Unsupported type"):
        tasks.mail.enqueue(datetime.now(UTC))
    with pytest.raises(InvalidPayload):
        tasks.add.enqueue(2**70, 1)
    run_jobs()
    assert tasks.mail.get_result(result.id).return_value == "7: <b>"


@pytest.mark.parametrize("task", [tasks.fail, tasks.afail], ids=["plain", "async"])
def test_a_task_that_raises_has_failed(task: Any, configured: Configure) -> None:
    configured()
    result = task.enqueue("no such order")
    run_jobs()
    result.refresh()
    assert (result.status, result.attempts) == (FAILED, 1)
    [error] = result.errors
    assert error.exception_class is LookupError
    assert error.traceback.startswith("Traceback")
    assert error.traceback.endswith("LookupError: no such order\n")
    assert "django_shop/tasks.py" in error.traceback.splitlines()[1]  # the first frame is that of the task
    with pytest.raises(ValueError, match="Task failed"):
        _ = result.return_value


def test_retries_are_attempts_with_an_error_each(configured: Configure) -> None:
    configured(retry=RetryPolicy.fixed(2, 0))
    result = tasks.fail.enqueue("still")
    run_jobs()
    result.refresh()
    assert (result.status, result.attempts) == (FAILED, 3)
    assert [error.exception_class for error in result.errors] == [LookupError] * 3
    assert len({*result.worker_ids}) == 1
    assert result.started_at <= result.last_attempted_at <= result.finished_at


def test_the_context_has_the_attempt_and_what_went_before(configured: Configure) -> None:
    configured(retry=RetryPolicy.fixed(5, 0))
    result = tasks.attempts.enqueue(3)
    run_jobs()
    assert tasks.attempts.get_result(result.id).return_value == [result.id, 3, 2, [True] * 3]


def test_single_tasks_have_options_of_headrace(configured: Configure) -> None:
    configured(task_options={"django_shop.tasks.attempts": {"retry": RetryPolicy.fixed(1, 0)}})
    good, bad = tasks.attempts.enqueue(2), tasks.attempts.enqueue(3)
    run_jobs()
    assert [tasks.attempts.get_result(each.id).status for each in (good, bad)] == [SUCCESSFUL, FAILED]


def test_a_cancelled_task_has_failed(configured: Configure) -> None:
    configured()
    result = tasks.add.enqueue(1, 2)
    assert get_app().job(result.id).sync.cancel()
    result.refresh()
    assert result.status == FAILED
    assert [error.exception_class_path for error in result.errors] == ["headrace.JobCancelled"]


def test_a_value_that_json_cannot_have_is_a_failure(configured: Configure) -> None:
    configured()
    result = tasks.lazy.enqueue()
    run_jobs()
    result.refresh()
    assert result.errors[0].exception_class is TypeError


@pytest.mark.parametrize(
    ("kept", "path"),
    [
        ("ValueError", "builtins.ValueError"),
        ("django_shop.errors.Declined", "django_shop.errors.Declined"),
        ("WorkerCrashed", "headrace.JobFailed"),
        ("print", "headrace.JobFailed"),
        ("timed out", "headrace.JobFailed"),
    ],
)
def test_errors_have_the_path_of_their_class(kept: str, path: str) -> None:
    assert class_path(kept) == path


# --- coroutines --------------------------------------------------------------------------------------------


def test_coroutines_enqueue_and_ask(configured: Configure) -> None:
    configured()

    async def main() -> Any:
        result = await tasks.add.aenqueue(4, 5)
        await get_app().worker().run(burst=True)
        await result.arefresh()
        return result.return_value, (await tasks.add.aget_result(result.id)).status

    assert asyncio.run(main()) == (9, SUCCESSFUL)


# --- databases ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", [tasks.pay, tasks.apay], ids=["plain", "async"])
def test_a_task_uses_the_database_and_leaves_no_connection_open(task: Any, configured: Configure) -> None:
    configured()
    opened = []
    order = Order.objects.create(customer="Ada")
    result = task.enqueue(order.pk)
    with listening(task_finished, lambda **_: opened.append(connection.connection)):
        run_jobs()
    assert task.get_result(result.id).return_value == "paid"
    [of_the_job] = opened
    assert of_the_job is not None
    with pytest.raises(Exception, match="closed"):
        of_the_job.execute("SELECT 1")
    order.refresh_from_db()  # on the connection of this thread, which stays open
    assert connections["default"].connection is not None


# --- signals -----------------------------------------------------------------------------------------------


@contextmanager
def listening(signal: Any, receiver: Any) -> Iterator[None]:
    signal.connect(receiver, weak=False)
    try:
        yield
    finally:
        signal.disconnect(receiver)


@pytest.mark.parametrize("names", [("add", "fail"), ("aadd", "afail")], ids=["plain", "async"])
def test_signals_of_django_are_sent_from_the_worker(names: tuple[str, str], configured: Configure) -> None:
    configured()
    seen: list[Any] = []

    def note(sender: Any, task_result: Any, **_: Any) -> None:
        Order.objects.count()  # a receiver may use the database
        seen.append((sender, task_result.id, str(task_result.status)))

    succeeds, fails = (getattr(tasks, name) for name in names)
    with listening(task_started, note), listening(task_finished, note):
        for task, arguments in ((succeeds, (1, 2)), (fails, ("why",))):
            result = task.enqueue(*arguments)
            run_jobs()
            end = "SUCCESSFUL" if task is succeeds else "FAILED"
            assert seen == [(Backend, result.id, "RUNNING"), (Backend, result.id, end)]
            seen.clear()


def test_an_error_of_a_receiver_does_not_affect_the_task(configured: Configure) -> None:
    configured()

    def broken(**_: Any) -> None:
        raise RuntimeError("receiver")

    with listening(task_started, broken), listening(task_finished, broken):
        result = tasks.add.enqueue(1, 2)
        run_jobs()
    assert tasks.add.get_result(result.id).status == SUCCESSFUL


# --- the app -----------------------------------------------------------------------------------------------


def test_a_task_runs_on_a_schedule(configured: Configure) -> None:
    configured()
    app = get_app()
    app.sync.schedules.put("nightly", app.tasks["django_shop.tasks.add"].call(1, 2), cron="0 3 * * *")
    job = app.sync.schedules.run_now("nightly")
    run_jobs()
    assert job.sync.result(timeout=1) == 3


def test_a_backend_may_have_an_app_of_yours(configured: Configure) -> None:
    from django_shop import jobs

    configured(app="django_shop.jobs.app")
    assert get_app() is jobs.app
    result = tasks.add.enqueue(1, 2)
    own = jobs.pack.sync.enqueue(7)
    run_jobs()
    assert tasks.add.get_result(result.id).return_value == 3
    assert own.sync.result(timeout=1) == "packed 7"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"enqueue": "later"}, "one of now, on_commit, in_transaction, not 'later'"),
        ({"url": "memory://", "wrong": 1}, "wrong"),
        ({"app": "django_shop.jobs.app", "namespace": "x"}, "give namespace to that App"),
        ({"app": "django_shop.jobs.pack"}, "is no App"),
        ({"task_options": {"django_shop.tasks.add": {"queue": "x"}}}, "which Django decides"),
        ({"retry": 3}, "retry"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str, configured: Configure) -> None:
    configured(**settings)
    with pytest.raises(ConfigurationError, match=message):
        _ = task_backends["default"]


def test_a_project_without_the_app_is_warned(configured: Configure, settings_without_headrace: None) -> None:
    configured()
    [warning] = task_backends["default"].check()
    assert warning.id == "headrace.W001"


@pytest.fixture
def settings_without_headrace() -> Iterator[None]:
    from django.apps import apps
    from django.test import modify_settings

    with modify_settings(INSTALLED_APPS={"remove": "headrace.django"}):
        assert not apps.is_installed("headrace.django")
        yield


def test_a_copy_of_a_task_with_another_queue_is_the_same_task(configured: Configure) -> None:
    configured()
    tasks.mail.using(queue_name="default").enqueue(7)
    assert get_app().tasks["django_shop.tasks.mail"].options.queue == "mails"  # which a worker serves


WITHOUT = """
import sys
sys.modules[sys.argv[1]] = None
import django
from django.conf import settings
settings.configure()
try:
    import headrace.django
except Exception as error:
    print(f"{type(error).__name__}: {error}")
"""


@pytest.mark.parametrize(
    ("package", "message"),
    [
        ("django", "ConfigurationError: headrace.django needs Django: pip install 'headrace[django]'\n"),
        ("django_tasks", "has no tasks: pip install 'django-tasks>=0.12', or use Django 6\n"),
    ],
)
def test_what_is_not_installed_is_named(package: str, message: str) -> None:
    if package == "django_tasks" and django.VERSION >= (6, 0):
        pytest.skip("Django 6 needs no django_tasks")
    program = WITHOUT if package != "django" else re.sub("import django\n.*\n.*\n", "", WITHOUT)
    said = subprocess.run(
        [sys.executable, "-c", program, package], capture_output=True, text=True, check=True
    )
    assert said.stdout.endswith(message)
