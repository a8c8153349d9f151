"""Tasks that stand on a lifespan and on dependencies, and run in child processes."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

from headrace import App, Depends, RetryPolicy, Secret, current_job

#: Where everything that happens is written down, a line each.
STORY = "HEADRACE_TEST_STORY"


def tell(what: str) -> None:
    """Each line says in which process it happened: the worker's, or a child's."""
    with Path(os.environ[STORY]).open("a") as story:
        story.write(f"{os.getpid()} {what}\n")


@asynccontextmanager
async def lifespan() -> AsyncIterator[dict[str, int]]:
    tell("enter")
    yield {"pid": os.getpid()}
    tell("leave")


app = App("memory://", lifespan=lifespan, retry=RetryPolicy.none())


async def engine() -> AsyncIterator[str]:
    tell("engine")
    yield "engine"
    tell("engine gone")


def session(engine: str = Depends(engine, scope="worker")) -> Iterator[str]:
    tell("session")
    try:
        yield f"session of {engine}"
    except ValueError as error:
        tell(f"rollback: {error}")
        raise
    finally:
        tell("session gone")


async def user() -> str:
    return f"user of {current_job().id}"


@app.task(run_in="process")
def plain(a: int, session: str = Depends(session), user: str = Depends(user)) -> tuple[int, int, str, str]:
    return a, current_job().state["pid"], session, user


@app.task(run_in="process")
async def coroutine(
    a: int, session: str = Depends(session), user: str = Depends(user)
) -> tuple[int, int, str, str]:
    return a, current_job().state["pid"], session, user


@app.task(run_in="process")
def fail(session: str = Depends(session)) -> int:
    raise ValueError("boom")


@app.task(run_in="process")
def count(password: Secret[str]) -> int:
    return len(password.reveal())
