"""What jobs stand on: a lifespan for the worker, dependencies for a task, secrets among its arguments."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

from headrace import App, Depends, Secret, current_job, signals


class Database:
    """Stands for a real one."""

    def __init__(self) -> None:
        self.rows: list[str] = []
        self.open = True


async def test_a_worker_enters_the_lifespan_once() -> None:
    @asynccontextmanager
    async def lifespan(app: App) -> AsyncIterator[Database]:
        db = Database()
        yield db  # jobs find it as current_job().state
        db.open = False

    app = App("memory://", lifespan=lifespan)

    @app.task
    async def insert(row: str) -> bool:
        db: Database = current_job().state
        db.rows.append(row)
        return db.open

    async with app:
        job = await insert.enqueue("a")
        await app.worker().run(burst=True)
        assert await job.result() is True


async def test_a_task_says_what_it_needs() -> None:
    app = App("memory://")
    story: list[str] = []

    async def get_db() -> AsyncIterator[Database]:
        yield Database()  # once in the worker's life
        story.append("closed")

    def transaction(db: Database = Depends(get_db, scope="worker")) -> Iterator[Database]:
        try:
            yield db  # once in each run
            story.append("commit")
        except Exception:
            story.append("rollback")
            raise

    @app.task
    async def insert(row: str, db: Database = Depends(transaction)) -> list[str]:
        db.rows.append(row)
        return db.rows

    async with app:
        first, second = await insert.enqueue("a"), await insert.enqueue("b")
        await app.worker(concurrency=1).run(burst=True)
        assert await first.result() == ["a"]
        assert await second.result() == ["a", "b"]
    assert story == ["commit", "commit", "closed"]


async def test_a_test_may_give_its_own() -> None:
    app = App("memory://")

    @app.task
    async def insert(row: str, db: Database = Depends(Database)) -> list[str]:
        db.rows.append(row)
        return db.rows

    fake = Database()
    assert await insert("a", fake) == ["a"]
    assert fake.rows == ["a"]


async def test_a_cleanup_that_fails_at_the_end_of_a_worker_is_announced() -> None:
    app = App("memory://")
    heard: list[str] = []

    def get_db() -> Iterator[Database]:
        yield Database()
        raise ConnectionError("already closed")

    @app.task
    async def insert(db: Database = Depends(get_db, scope="worker")) -> None: ...

    @app.on(signals.CleanupFailed)
    def hear(failed: signals.CleanupFailed) -> None:
        heard.append(failed.error)

    async with app:
        await insert.enqueue()
        await app.worker().run(burst=True)
    assert heard == ["ConnectionError: already closed"]


async def test_a_secret_is_read_by_the_job_alone() -> None:
    app = App("memory://")

    @app.task
    async def login(user: str, password: Secret[str]) -> int:
        return len(password.reveal())

    async with app:
        job = await login.enqueue("ada", Secret("swordfish"))
        contents = await app.admin.contents(job.id)
        assert contents is not None
        assert contents.args == ("ada", "***")
        await app.worker().run(burst=True)
        assert await job.result() == 9
    assert str(Secret("swordfish")) == "Secret(***)"
