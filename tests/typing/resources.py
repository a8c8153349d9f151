"""What type checkers must say of lifespans, dependencies and secrets; see `jobs.py`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, assert_type

from headrace import App, Depends, Job, Secret, current_job


class Database:
    pass


@asynccontextmanager
async def lifespan(app: App) -> AsyncGenerator[Database, None]:
    yield Database()


@asynccontextmanager
async def bare_lifespan() -> AsyncGenerator[None, None]:
    yield


app = App("memory://", lifespan=lifespan)
App("memory://", lifespan=bare_lifespan)
App("memory://", lifespan=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def plain() -> Database:
    return Database()


async def coroutine() -> Database:
    return Database()


def iterator() -> Iterator[Database]:
    yield Database()


def generator() -> Generator[Database, None, None]:
    yield Database()


async def async_iterator() -> AsyncIterator[Database]:
    yield Database()


async def async_generator() -> AsyncGenerator[Database, None]:
    yield Database()


@contextmanager
def manager() -> Generator[Database, None, None]:
    yield Database()


@asynccontextmanager
async def async_manager() -> AsyncGenerator[Database, None]:
    yield Database()


def check_what_a_dependency_gives() -> None:
    assert_type(Depends(plain), Database)
    assert_type(Depends(coroutine), Database)
    assert_type(Depends(iterator), Database)
    assert_type(Depends(generator), Database)
    assert_type(Depends(async_iterator), Database)
    assert_type(Depends(async_generator), Database)
    assert_type(Depends(manager), Database)
    assert_type(Depends(async_manager, scope="worker"), Database)
    assert_type(Depends(Database), Database)


@app.task
async def greet(name: str, *, db: Database = Depends(async_iterator)) -> str:
    return name


@app.task
def wrong(name: str, db: str = Depends(plain)) -> str:  # type: ignore[assignment]  # pyright: ignore[reportArgumentType]
    return name


@app.task
async def login(user: str, password: Secret[str]) -> bool:
    assert_type(password.reveal(), str)
    return True


async def check_enqueueing() -> None:
    assert_type(await greet.enqueue("ada"), Job[str])
    assert_type(await login.enqueue("ada", Secret("swordfish")), Job[bool])
    await greet.enqueue()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await login.enqueue("ada", Secret(7))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def check_the_state() -> None:
    assert_type(current_job().state, Any)
