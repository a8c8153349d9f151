"""What every suite shares: one event loop library, and real servers that start when they are first needed."""

from __future__ import annotations

import importlib
import logging
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.servers import Fleet, Server, rows

# `pytest --hypothesis-profile=nightly` looks for what the same quick examples at every commit do not find.
settings.register_profile("commit", max_examples=120, stateful_step_count=40, derandomize=True, deadline=None)
settings.register_profile("long", max_examples=1000, stateful_step_count=50, deadline=None)
settings.register_profile("nightly", max_examples=3000, stateful_step_count=80, deadline=None)
# For the other Pythons: one of them has tried all examples of the commit.
settings.register_profile("brief", parent=settings.get_profile("commit"), max_examples=20)
settings.load_profile("commit")

# A shell starts a background process with Ctrl-C ignored, and what the process starts ignores it, too. Tests
# send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def root_log_level() -> Iterator[None]:
    """A test that runs the worker's command leaves the level of the root logger as it was."""
    level = logging.root.level
    yield
    logging.root.setLevel(level)


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """The servers of this process (under xdist each has its own): `servers.get("redis-6.2")`."""
    fleet = Fleet(tmp_path_factory.mktemp("servers"))
    yield fleet
    fleet.stop()


@pytest.fixture(scope="session", params=rows())
def redis_server(request: pytest.FixtureRequest, servers: Fleet) -> Server:
    """The test runs once for each kind of server. It shares the server: it must leave it as it was."""
    return servers.get(request.param)


@pytest.fixture
def nobodys_folder() -> Iterator[Path]:
    """As a user for whom permissions count: root may write everywhere. That one may not be able to read the
    folder of this Python either, so what is imported when it is first used must be there before."""
    importlib.import_module("concurrent.futures.thread")
    folder = Path(tempfile.mkdtemp(prefix="headrace-"))
    root = os.geteuid() == 0
    if root:
        os.chown(folder, 65534, 65534)
        os.seteuid(65534)
    try:
        yield folder
    finally:
        if root:
            os.seteuid(0)
        shutil.rmtree(folder)
