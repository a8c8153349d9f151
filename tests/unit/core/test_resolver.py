"""Host names are resolved in threads, which do not run in a forked child and may fail to start."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading

import pytest

from headrace.core.runtime.resolver import addresses_of

FORK = """
import asyncio, os, signal, threading
from headrace.core.runtime.resolver import addresses_of

start, children = threading.Thread.start, []

def resolve():
    return asyncio.run(addresses_of("localhost"))

def fork_and_start(thread):
    threading.Thread.start = start
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        own = threading.Thread(target=lambda: os._exit(7 if resolve() else 1))
        own.start()
        own.join()
    children.append(child)
    start(thread)

threading.Thread.start = fork_and_start
assert resolve()
codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
raise SystemExit(0 if codes == [7] else f"{codes}")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
async def test_a_forked_child_resolves_a_name_that_its_parent_was_resolving() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-W", "ignore", "-c", FORK, stderr=subprocess.PIPE
    )
    _, errors = await asyncio.wait_for(process.communicate(), 50)
    assert process.returncode == 0, errors.decode()


async def test_a_name_is_resolved_after_no_thread_could_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        with pytest.raises(RuntimeError, match="new thread"):
            await addresses_of("localhost")
    assert await asyncio.wait_for(addresses_of("localhost"), 20)
