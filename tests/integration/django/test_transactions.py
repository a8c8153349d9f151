"""When a job is stored: at once, after the commit, or as a part of the transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from django.conf import settings
from django.db import connections, transaction
from django.test import TestCase
from django_shop import tasks
from django_shop.models import Order
from psycopg.conninfo import conninfo_to_dict

from headrace import ConfigurationError
from headrace.django import get_app
from headrace.django.framework import TaskResultDoesNotExist, task_enqueued
from headrace.stores.outbox import schema_of
from tests.support.postgres_server import PostgresServer

from .conftest import Configure, run_jobs


def stored(*results: Any) -> list[bool]:
    """Which of these the store knows, by the app alone."""
    return [get_app().sync.admin.job(result.id) is not None for result in results]


def test_a_job_is_stored_at_once_by_default(configured: Configure) -> None:
    configured()
    with transaction.atomic():
        assert stored(tasks.add.enqueue(1, 2)) == [True]


@pytest.mark.parametrize("settings", [{"enqueue": "on_commit"}, {"ENQUEUE_ON_COMMIT": True}], ids=str)
def test_a_job_is_stored_after_the_commit(settings: dict[str, Any], configured: Configure) -> None:
    configured(**settings)
    announced: list[str] = []

    def note(task_result: Any, **_: Any) -> None:
        announced.append(task_result.id)

    task_enqueued.connect(note, weak=False)
    with transaction.atomic():
        kept = tasks.add.enqueue(1, 2)
        with suppress(LookupError), transaction.atomic():
            lost = tasks.add.enqueue(3, 4)
            raise LookupError
        assert kept.enqueued_at is None
        assert (stored(kept, lost), announced) == ([False, False], [])
        with pytest.raises(TaskResultDoesNotExist):
            kept.refresh()
    assert (stored(kept, lost), announced) == ([True, False], [kept.id])
    assert kept.enqueued_at == tasks.add.get_result(kept.id).enqueued_at
    at_once = tasks.add.enqueue(5, 6)
    assert stored(at_once) == [True]
    task_enqueued.disconnect(note)


def test_a_coroutine_enqueues_after_the_commit_too(configured: Configure) -> None:
    configured(enqueue="on_commit")
    with transaction.atomic():
        result = asyncio.run(enqueued_by_a_coroutine())
    # A transaction belongs to a thread. Django runs that call in another thread, outside of the transaction.
    assert stored(result) == [True]


async def enqueued_by_a_coroutine() -> Any:
    return await tasks.add.aenqueue(1, 2)


def test_tests_of_users_capture_what_is_enqueued_on_commit(configured: Configure) -> None:
    configured(enqueue="on_commit")

    class Case(TestCase):  # type: ignore[misc]
        def test(self) -> None:
            with self.captureOnCommitCallbacks(execute=True):
                self.result = tasks.add.enqueue(1, 2)
            assert stored(self.result) == [True]

    outcome = Case("test").run()
    assert outcome is not None
    assert outcome.wasSuccessful(), outcome.errors + outcome.failures


# --- as a part of the transaction -------------------------------------------------------------------------


def place_orders() -> tuple[Any, Any]:
    """One order that is committed with its job, and one of which nothing is left."""
    with transaction.atomic():
        order = Order.objects.create(customer="Ada")
        kept = tasks.pay.enqueue(order.pk)
        with suppress(LookupError), transaction.atomic():
            lost = tasks.pay.enqueue(Order.objects.create(customer="Bob").pk)
            raise LookupError
    return kept, lost


def test_a_job_is_part_of_a_transaction_on_sqlite_with_an_outbox(configured: Configure) -> None:
    url = f"sqlite:///{settings.DATABASES['default']['NAME']}"
    asyncio.run(schema_of(url))
    configured(enqueue="in_transaction", outbox=url)
    kept, lost = place_orders()
    assert stored(kept, lost) == [False, False]  # until a worker has relayed it
    run_jobs()
    assert stored(kept, lost) == [True, False]
    assert tasks.pay.get_result(kept.id).return_value == "paid"
    assert stored(tasks.add.enqueue(1, 2)) == [True]  # outside of a transaction


@contextmanager
def without_autocommit() -> Iterator[None]:
    transaction.set_autocommit(False)
    try:
        yield
        transaction.commit()
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)


def test_without_autocommit_every_job_is_part_of_a_transaction(configured: Configure) -> None:
    url = f"sqlite:///{settings.DATABASES['default']['NAME']}"
    asyncio.run(schema_of(url))
    configured(enqueue="in_transaction", outbox=url)
    with suppress(LookupError), without_autocommit():
        lost = tasks.add.enqueue(1, 2)
        raise LookupError
    with without_autocommit():
        kept = tasks.add.enqueue(3, 4)
        assert stored(lost, kept) == [False, False]
    run_jobs()
    assert stored(lost, kept) == [False, True]


def test_django_has_no_on_commit_without_autocommit(configured: Configure) -> None:
    configured(enqueue="on_commit")
    with without_autocommit(), pytest.raises(transaction.TransactionManagementError, match="on_commit"):
        tasks.add.enqueue(1, 2)
    assert get_app().sync.admin.queues() == []


def test_a_connection_is_not_opened_to_ask_for_its_transaction(configured: Configure) -> None:
    configured(enqueue="in_transaction")
    connections.close_all()
    assert stored(tasks.add.enqueue(1, 2)) == [True]
    assert connections["default"].connection is None


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        asyncio.run(schema_of(server.url))
        yield server


@pytest.fixture
def postgres(server: PostgresServer) -> Iterator[str]:
    """The alias of a PostgreSQL database in this project."""
    words = conninfo_to_dict(server.url)
    place = {"NAME": words["dbname"], "USER": words["user"], "HOST": words["host"], "PORT": words["port"]}
    databases = {"default": {}, "postgres": {"ENGINE": "django.db.backends.postgresql", **place}}
    connections.settings["postgres"] = connections.configure_settings(databases)["postgres"]
    yield "postgres"
    connections["postgres"].close()
    del connections["postgres"], connections.settings["postgres"]


@pytest.mark.timeout(180)
@pytest.mark.parametrize("way", ["store", "outbox"])
def test_a_job_is_part_of_a_transaction_on_postgresql(
    way: str, server: PostgresServer, postgres: str, configured: Configure
) -> None:
    place = {"url": server.url} if way == "store" else {"outbox": server.url}
    configured(enqueue="in_transaction", database=postgres, namespace=f"django-{way}", **place)
    with transaction.atomic(using=postgres):
        kept = tasks.add.enqueue(1, 2)
        with suppress(LookupError), transaction.atomic(using=postgres):
            lost = tasks.add.enqueue(3, 4)
            raise LookupError
        assert stored(kept, lost) == [False, False]
    run_jobs()
    assert stored(kept, lost) == [True, False]
    assert tasks.add.get_result(kept.id).return_value == 3


def test_a_database_that_the_app_does_not_know_is_refused(configured: Configure) -> None:
    configured(enqueue="in_transaction")
    with pytest.raises(ConfigurationError, match="does not know"), transaction.atomic():
        tasks.add.enqueue(1, 2)
