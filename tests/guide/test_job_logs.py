"""What a job logs, kept with it."""

from __future__ import annotations

import logging

import pytest

from headrace import App


async def test_the_log_of_a_job_is_kept_with_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")  # what your logging lets through
    app = App("memory://", job_logs=200)
    log = logging.getLogger("shop")

    @app.task
    async def charge(amount: int) -> str:
        log.info("charging %d", amount)
        log.warning("the bank is slow")
        return "paid"

    async with app, app.worker():
        job = await charge.enqueue(7)
        assert await job.result(timeout=10) == "paid"
        info = await job.info()
        assert [(line.attempt, line.level, line.text) for line in info.log] == [
            (1, "info", "charging 7"),
            (1, "warning", "the bank is slow"),
        ]
