"""The stores of the contract suite: every test runs on the local ones and on every kind of server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headrace.core.messages.ids import new_id
from headrace.core.store import Store
from headrace.stores import open_store
from headrace.stores.postgres.address import PostgresAddress
from headrace.stores.postgres.schema.grants import grants_for
from headrace.stores.postgres.schema.schema import apply
from headrace.stores.redis.client import first_answer
from headrace.stores.redis.intake import cluster_readers, poll
from headrace.testing.contract import StoreUnderTest
from tests.contract.forgotten import check_forgotten
from tests.support.postgres_server import PostgresServer
from tests.support.redis_leases import age_leases
from tests.support.server_groups import Cluster, Watched
from tests.support.servers import Fleet, rows

LOCAL_STORES = ("memory", "sqlite")

#: Stores on which the queue and the topic of the stand are split in three. What a test says of one stream
#: must hold of three parts too; where it cannot, it says why: `@pytest.mark.whole("…")`.
SPLIT = "split-"
PARTS = 3

MORE = pytest.mark.more

#: What runs on parts in `make test`, and in `make test-more` also on a cluster, where they are on different
#: nodes. There every other module runs on parts, too.
SPLIT_CORE = ("test_claim", "test_fences", "test_settle")

POSTGRES = "postgresql"
#: The role of the suite. It owns nothing.
WORKER = "worker"

#: What runs on PostgreSQL in `make test`.
POSTGRES_SMOKE = (
    "test_append",
    "test_claim",
    "test_settle",
    "test_reclaim",
    "test_group_claim",
    "test_outbox",
)

#: Several servers that belong together: the core of the suite runs on them too.
CONSTELLATIONS: dict[str, tuple[type[Watched | Cluster], str]] = {
    "sentinel": (Watched, "redis-7.0"),
    "cluster": (Cluster, "valkey-9.1"),
}

#: Behind sentinels is a server like any other: a module for each kind of connection is enough. On a cluster
#: every verb goes another way.
CORE = {
    "sentinel": ("claim", "renew", "results_and_waiters", "topic_read"),
    "cluster": (
        *(
            "append",
            "claim",
            "children",
            "fences",
            "settle",
            "reclaim",
            "renew",
            "promote",
            "pause_and_purge",
            "lifecycle",
        ),
        *("results_and_waiters", "traffic", "group_claim", "topic_read", "topic_listing", "concurrency"),
        *(
            "outbox",
            "moving",
            "moving_limits",
            "limits",
            "rates",
            "tenants",
            "ordered_jobs",
            "history",
            "replace",
            "clean",
        ),
        "other_constraints",
    ),
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "store" in metafunc.fixturenames:
        module = metafunc.module.__name__.rpartition(".")[2]
        one_place = metafunc.definition.get_closest_marker("one_place")
        several = [
            pytest.param(name, marks=MORE)
            for name, core in CORE.items()
            if module.removeprefix("test_") in core and not (one_place and name == "cluster")
        ]
        whole = metafunc.definition.get_closest_marker("whole")
        stores = [
            *LOCAL_STORES,
            *rows(),
            postgres_row(module),
            *several,
            *([] if whole else split_rows(module)),
        ]
        metafunc.parametrize("store", stores, scope="session")


def postgres_row(module: str) -> Any:
    """`make test` runs a smoke set on PostgreSQL, and `make test-more` the whole suite."""
    return POSTGRES if module in POSTGRES_SMOKE else pytest.param(POSTGRES, marks=MORE)


def split_rows(module: str) -> list[Any]:
    on_server = pytest.param(f"{SPLIT}valkey-9.1", marks=MORE)
    if module in SPLIT_CORE:
        return [f"{SPLIT}memory", on_server, pytest.param(f"{SPLIT}cluster", marks=MORE)]
    return [pytest.param(f"{SPLIT}memory", marks=MORE), on_server]


@pytest.fixture(autouse=True)
def claims_are_not_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a store knows of the sizes of messages soon grows old. On a very busy machine one claim then
    brings fewer than it could, and most tests count what one claim brings. Nor is a node of a cluster or a
    sentinel given up after a second: none is away here."""
    monkeypatch.setattr(poll, "FRESH", 30.0)
    monkeypatch.setattr(cluster_readers, "GRACE", 30.0)
    monkeypatch.setattr(first_answer, "PATIENCE", 30.0)


@pytest.fixture(scope="session")
def constellations(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """The URL of one, which is started when it is first asked for."""
    started: dict[str, Watched | Cluster] = {}

    def url(name: str) -> str:
        if name not in started:
            make, kind = CONSTELLATIONS[name]
            started[name] = make(kind, tmp_path_factory.mktemp(name))
            started[name].__enter__()
        return started[name].url

    yield url
    for constellation in started.values():
        constellation.stop()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The PostgreSQL server of this process, with tables that another role made. So the suite runs with the
    smallest rights."""
    with PostgresServer() as server:
        address = PostgresAddress.parse(server.url)
        asyncio.run(apply(address))
        statements = [f"CREATE ROLE {WORKER} LOGIN", *grants_for(address.schema, WORKER)]
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("; ".join(statements).encode())
        yield server


@pytest.fixture
def store_url(store: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    store = store.removeprefix(SPLIT)
    if store == "memory":
        return f"memory://{new_id()}"
    if store == "sqlite":
        return f"sqlite:///{tmp_path / 'jobs.db'}"
    if store in CONSTELLATIONS:
        url: str = request.getfixturevalue("constellations")(store)
        return url
    if store == POSTGRES:
        server: PostgresServer = request.getfixturevalue("postgres_server")
        return server.url_as(WORKER)
    fleet: Fleet = request.getfixturevalue("servers")
    return fleet.get(store).url


@pytest.fixture
def store_under_test(store: str, store_url: str) -> StoreUnderTest:
    return StoreUnderTest(
        lambda namespace, clock: open_store(store_url, namespace=namespace, clock=clock),
        name=store.removeprefix(SPLIT).partition("-")[0],
        parts=PARTS if store.startswith(SPLIT) else 1,
        any_integer=store.removeprefix(SPLIT) == "memory",
        server_clock=store_url.startswith(("redis", "postgresql")),
        age_leases=_aging(store_url),
        check_forgotten=check_forgotten,
    )


def _aging(store_url: str) -> Callable[[Store, float], Awaitable[None]]:
    async def age(store: Store, seconds: float) -> None:
        if store_url.startswith("redis"):
            await asyncio.to_thread(age_leases, store_url, seconds)

    return age
