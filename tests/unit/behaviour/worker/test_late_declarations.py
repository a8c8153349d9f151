"""A worker serves what was declared when it started. What is declared later is refused, not passed over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace import App, ConfigurationError, JobFailed, RetryPolicy


async def late(*_: Any) -> None: ...


def declare_task(app: App) -> None:
    app.task(name="late")(late)


def declare_subscription(app: App) -> None:
    app.topic("orders", int).subscribe(group="late")(late)


def declare_schedule(app: App) -> None:
    app.every(60)(app.tasks["early"])


DECLARATIONS = [declare_task, declare_subscription, declare_schedule]


@pytest.fixture
async def app() -> App:
    app = App("memory://")
    app.task(name="early", retry=RetryPolicy.none())(late)
    return app


@pytest.mark.parametrize("declare", DECLARATIONS)
async def test_it_is_refused_while_a_worker_runs(app: App, declare: Callable[[App], None]) -> None:
    async with app, app.worker():
        with pytest.raises(ConfigurationError, match="declare it before the worker starts"):
            declare(app)
    declare(app)  # and nothing of it was left behind


async def test_a_module_that_is_imported_again_declares_nothing_new(app: App) -> None:
    async with app, app.worker():
        assert app.task(name="early")(late).name == "early"


async def test_a_handler_that_imports_a_late_module_says_so(app: App) -> None:
    @app.task(name="lazy", retry=RetryPolicy.none())
    async def lazy() -> int:
        declare_task(app)
        return 1

    async with app, app.worker():
        job = await lazy.enqueue()
        with pytest.raises(JobFailed) as caught:
            await job.result(timeout=10)
    assert caught.value.error_type == "headrace.ConfigurationError"
    assert "task 'late'" in caught.value.error


async def test_a_worker_that_did_not_start_is_in_nobodys_way() -> None:
    def broken(_: App) -> Any:
        raise OSError("no database")

    app = App("memory://", lifespan=broken)
    async with app:
        with pytest.raises(OSError, match="no database"):
            async with app.worker():
                pass
        declare_task(app)
    assert "late" in app.tasks
