"""Lifespans, dependencies and secrets of an app that stands on a kit."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from headrace import App, Depends, Secret, current_job
from headrace.testing import memory, run_inline


@asynccontextmanager
async def lifespan() -> AsyncIterator[str]:
    yield "state"


async def word() -> AsyncIterator[str]:
    yield "word"


app = App("memory://", lifespan=lifespan)


@app.task(name="use", result_ttl=60)
def use(password: Secret[str], value: str = Depends(word)) -> list[object]:
    return [password.reveal(), value, current_job().state, threading.get_ident()]


@app.task(name="pool", run_in="process", result_ttl=60)
async def pool(value: str = Depends(word, scope="worker")) -> str:
    return value


def test_a_plain_test_has_them_all() -> None:
    with memory(app) as kit:
        job = app.sync.enqueue(use.call(Secret("swordfish")))
        other = app.sync.enqueue(pool.call())
        kit.sync.drain()
        assert app.sync.result(job)[:3] == ["swordfish", "word", "state"]
        assert app.sync.result(other) == "word"


def test_jobs_run_inline_have_them_in_the_thread_of_the_test() -> None:
    with run_inline(app):
        job = app.sync.enqueue(use.call(Secret("swordfish")))
        assert app.sync.result(job) == ["swordfish", "word", "state", threading.get_ident()]


async def test_an_assertion_takes_a_plain_value_for_a_secret_and_shows_none() -> None:
    with memory(app) as kit:
        await use.enqueue(Secret("swordfish"))
        kit.assert_enqueued(use, args=[Secret("swordfish")])
        kit.assert_enqueued(use, args=["swordfish"])
        with pytest.raises(AssertionError) as missed:
            kit.assert_enqueued(use, args=[Secret("other")])
        assert "password=Secret(***)" in str(missed.value)
        assert "value=" not in str(missed.value)
        assert "swordfish" not in str(missed.value)
