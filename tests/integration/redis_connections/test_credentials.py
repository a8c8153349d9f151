"""`credentials=`: each new connection asks for the user and the password, which may change at any time."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from headrace import App, BackendUnavailable, ConfigurationError, JobStatus
from headrace.core.messages.ids import new_id
from headrace.core.runtime import login
from headrace.core.store import Store
from headrace.core.values.credentials import Login
from headrace.engine.app_loop import retrying
from headrace.stores import open_store
from tests.support.server_groups import Cluster, Watched
from tests.support.servers import HOST, Server, require, rows
from tests.support.waiting import wait_until

USER = "app"


class Safe:
    """Where the current password is kept, and who has asked for it."""

    def __init__(self, servers: Sequence[Server]) -> None:
        self.servers = list(servers)
        self.passwords: list[str] = []
        self.error: Exception | None = None
        self.threads: set[int] = set()
        self.loops: set[asyncio.AbstractEventLoop] = set()
        self.calls = 0
        self.rotate()

    def rotate(self) -> None:
        """Set another password and end all connections, as a cloud does."""
        self.change_on_servers(new := f"pw-{new_id()}")
        self.passwords.append(new)
        self.end_connections()

    def change_on_servers(self, password: str) -> None:
        for server in self.servers:
            server.command("ACL", "SETUSER", USER, "on", "resetpass", f">{password}", "~*", "&*", "+@all")

    def end_connections(self) -> None:
        for server in self.servers:
            server.command("CLIENT", "KILL", "USER", USER)

    def give(self) -> Login:
        self.calls += 1
        self.threads.add(threading.get_ident())
        if self.error is not None:
            raise self.error
        return USER, self.passwords[-1]

    async def give_async(self) -> Login:
        self.loops.add(asyncio.get_running_loop())
        await asyncio.sleep(0)
        return self.give()

    def check_users(self) -> None:
        """Every connection of headrace is that of the user."""
        for server in self.servers:
            clients = server.command("CLIENT", "LIST")
            assert isinstance(clients, bytes)
            ours = [line for line in clients.decode().splitlines() if "name=headrace" in line]
            assert all(f"user={USER} " in line for line in ours)


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    with Server(require(getattr(request, "param", "valkey-9.1")), directory=tmp_path / "server") as server:
        yield server


@pytest.fixture
def safe(server: Server) -> Safe:
    return Safe([server])


@pytest.fixture(autouse=True)
def nothing_is_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.DEBUG)
    yield
    assert "pw-" not in caplog.text


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Callers give up soon."""
    monkeypatch.setattr(retrying, "RETRY_TIME", 1.0)


def app_on(url: str, credentials: Any) -> tuple[App, Any]:
    app = App(url, credentials=credentials, namespace=new_id())

    @app.task(name="double")
    async def double(n: int) -> int:
        return 2 * n

    assert "pw-" not in repr(app)
    return app, double


async def check_rotation(app: App, double: Any, safe: Safe, times: int = 2) -> None:
    """Jobs go on under each new password."""
    async with app, app.worker(lease=1):
        for number in range(times):
            job = await double.enqueue(number)
            assert await job.result(timeout=30) == 2 * number
            safe.check_users()
            before = safe.calls
            safe.rotate()
            job = await double.enqueue(number + 10)
            assert await job.result(timeout=30) == 2 * number + 20
            assert safe.calls > before
            # Also the keeper of the leases and the blocking readers have connected again by now.
            await wait_until(lambda: all(connections(each) >= 2 for each in safe.servers[:1]))
            safe.check_users()


def connections(server: Server) -> int:
    clients = server.command("CLIENT", "LIST")
    assert isinstance(clients, bytes)
    return clients.decode().count(f"user={USER} ")


@pytest.mark.parametrize("server", rows(), indirect=True)
@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_new_connections_use_the_new_password(server: Server, safe: Safe, kind: str) -> None:
    app, double = app_on(server.url, safe.give if kind == "plain" else safe.give_async)
    await check_rotation(app, double, safe)
    # A plain function never runs on an event loop of ours.
    assert (threading.get_ident() in safe.threads) is (kind == "async")


async def test_the_lease_keeper_asks_on_its_own_loop(server: Server, safe: Safe) -> None:
    started = asyncio.Event()
    app, _ = app_on(server.url, safe.give_async)

    @app.task(name="wait")
    async def wait() -> int:
        await started.wait()
        return 7

    async with app, app.worker(lease=1):
        job = await wait.enqueue()
        await wait_until(lambda: len(safe.loops) == 2)  # its first renewal
        safe.rotate()
        calls = safe.calls
        await wait_until(lambda: safe.calls > calls)
        started.set()
        assert await job.result(timeout=30) == 7
        assert (await job.info()).crashes == 0


async def test_a_function_that_gives_an_awaitable_is_awaited(server: Server, safe: Safe) -> None:
    app, double = app_on(server.url, lambda: safe.give_async())
    async with app, app.worker():
        assert await (await double.enqueue(4)).result(timeout=30) == 8


async def test_the_default_user_has_no_name(server: Server) -> None:
    server.command("CONFIG", "SET", "requirepass", "pw-default")
    app, double = app_on(server.url, lambda: (None, "pw-default"))
    async with app, app.worker():
        assert await (await double.enqueue(4)).result(timeout=30) == 8


# --- when it fails ----------------------------------------------------------------------------------------


async def test_a_function_that_raises_is_asked_again(server: Server, safe: Safe) -> None:
    app, double = app_on(server.url, safe.give)
    async with app, app.worker(lease=1):
        assert await (await double.enqueue(1)).result(timeout=30) == 2
        safe.error = RuntimeError("the vault is sealed")
        safe.end_connections()
        calls = safe.calls
        await wait_until(lambda: safe.calls > calls + 2)
        safe.error = None
        assert await (await double.enqueue(2)).result(timeout=30) == 4


@pytest.mark.usefixtures("impatient")
async def test_at_the_start_it_is_an_unavailable_store(server: Server, safe: Safe) -> None:
    safe.error = RuntimeError("the vault is sealed")
    app, double = app_on(server.url, safe.give)
    with pytest.raises(BackendUnavailable, match=r"gave no password for .*: the vault is sealed"):
        async with asyncio.timeout(30):
            await double.enqueue(1)
    safe.error = None
    job = await double.enqueue(1)
    assert await job.status() is JobStatus.QUEUED
    await app.close()


@pytest.mark.usefixtures("impatient")
def test_a_function_that_exits_is_an_unavailable_store(server: Server) -> None:
    async def leave() -> Login:
        raise SystemExit("no vault here")

    app, double = app_on(server.url, leave)
    with pytest.raises(BackendUnavailable, match=r"gave no password for .*: no vault here"):
        double.sync.enqueue(1)
    app.sync.close()


@pytest.mark.usefixtures("impatient")
async def test_a_function_that_hangs_is_given_up(
    server: Server, safe: Safe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login, "PATIENCE", 0.05)
    released = threading.Event()

    def hang() -> Login:
        released.wait(30)
        return safe.give()

    app, double = app_on(server.url, hang)
    with pytest.raises(BackendUnavailable, match=r"within 0\.05 s"):
        await double.enqueue(1)
    released.set()
    monkeypatch.setattr(login, "PATIENCE", 10)
    await double.enqueue(1)
    await app.close()


async def test_a_password_that_is_not_known_yet_passes(server: Server, safe: Safe) -> None:
    """The server has the new password before the function gives it."""
    app, double = app_on(server.url, safe.give)
    async with app, app.worker(lease=1):
        assert await (await double.enqueue(1)).result(timeout=30) == 2
        safe.change_on_servers("pw-later")
        calls = safe.calls
        safe.end_connections()
        await wait_until(lambda: safe.calls > calls + 2)
        safe.passwords.append("pw-later")
        assert await (await double.enqueue(2)).result(timeout=30) == 4


@pytest.mark.usefixtures("impatient")
async def test_a_refused_password_is_told_without_it(server: Server, safe: Safe) -> None:
    app, double = app_on(server.url, lambda: (USER, "pw-wrong"))
    with pytest.raises(BackendUnavailable, match="refuses the user or the password") as caught:
        await double.enqueue(1)
    assert "pw-" not in str(caught.value)
    await app.close()


@pytest.mark.parametrize(
    "given", [None, "pw-alone", (USER,), (USER, b"pw-bytes"), (USER, ""), (USER, "pw-1", "pw-2"), 7]
)
async def test_what_is_no_user_and_password_is_refused(server: Server, given: Any) -> None:
    app, double = app_on(server.url, lambda: given)
    with pytest.raises(ConfigurationError, match=r"must return \(user, password\)") as caught:
        await double.enqueue(1)
    assert "pw-" not in str(caught.value)
    await app.close()


async def test_missing_rights_are_told_with_the_name_of_the_user(server: Server, safe: Safe) -> None:
    server.command("ACL", "SETUSER", USER, "-xadd", "-hset")
    app, _ = app_on(server.url, safe.give)
    with pytest.raises(ConfigurationError, match=f"ACL SETUSER {USER} "):
        async with app, app.worker():
            pass
    await app.close()


# --- where it does not belong -----------------------------------------------------------------------------


def give() -> Login:
    return USER, "pw-never"


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: App("memory://", credentials=give), "a store in memory has no users"),
        (lambda: App("sqlite:///jobs.db", credentials=give), "a SQLite file has no users"),
        (lambda: App(store=memory_store(), credentials=give), "credentials= goes with a URL"),
        (lambda: App(f"redis://u:pw-url@{HOST}", credentials=give), "credentials= gives them, too"),
        (lambda: App(f"redis://{HOST}", credentials=(USER, "pw-1")), "takes a function .* not a tuple"),  # type: ignore[arg-type]
    ],
)
def test_where_it_cannot_work_it_is_refused(make: Callable[[], App], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem) as caught:
        make()
    assert "pw-" not in str(caught.value)


def memory_store() -> Store:
    return open_store("memory://")


# --- several servers --------------------------------------------------------------------------------------


@pytest.mark.more
@pytest.mark.timeout(180)
async def test_the_primary_behind_sentinels_is_asked_with_it(tmp_path: Path) -> None:
    with Watched("valkey-9.1", tmp_path) as watched:
        safe = Safe(watched.data)
        app, double = app_on(watched.url, safe.give)
        await check_rotation(app, double, primary_first(safe, watched), times=1)


def primary_first(safe: Safe, watched: Watched) -> Safe:
    safe.servers.sort(key=lambda server: server is not watched.primary())
    return safe


@pytest.mark.more
@pytest.mark.timeout(180)
async def test_every_node_of_a_cluster_is_asked_with_it(tmp_path: Path) -> None:
    with Cluster("valkey-9.1", tmp_path) as cluster:
        safe = Safe(cluster.servers)
        app, double = app_on(cluster.url, safe.give)
        async with app, app.worker(lease=1):
            for number in range(2):
                jobs = [await double.enqueue(each) for each in range(5)]
                assert [await job.result(timeout=60) for job in jobs] == [0, 2, 4, 6, 8], number
                safe.check_users()
                safe.rotate()
