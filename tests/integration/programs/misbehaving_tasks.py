"""Tasks for child processes that are hard on them: slow, stubborn, with children of their own.

They sleep where a user's function would work or hang; the tests that use them wait for what they say.
"""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from headrace import App, RetryPolicy
from headrace.engine.declared.registry import CallNext
from headrace.engine.running.children.protocol import Returned, frame
from headrace.engine.running.run import Run

#: A program that a function starts and leaves behind. It never ends by itself: the test looks who ends it.
LINGERS = (sys.executable, "-c", "import time; time.sleep(3600)")

app = App("memory://", retry=RetryPolicy.fixed(2, 0.01))
other = App("memory://", retry=RetryPolicy.fixed(2, 0.01))


@app.use
async def impatient(run: Run, call_next: CallNext) -> object:
    """Gives up on those that say so, and keeps others for longer than their function takes."""
    if "within" in run.headers:
        async with asyncio.timeout(float(run.headers["within"])):
            return await call_next(run)
    if "renamed" in run.headers:
        run.args = (run.headers["renamed"],)
    if "instead" in run.headers:
        call = asyncio.ensure_future(call_next(run))
        await asyncio.sleep(0)  # it waits for a child now
        call.cancel()
        await asyncio.sleep(3600)
    value = await call_next(run)
    if "linger" in run.headers:
        Path(run.headers["linger"]).touch()
        await asyncio.sleep(3600)
    return value


@app.task(run_in="process")
def secret_of(name: str, seconds: float = 0.0) -> str:
    time.sleep(seconds)  # longer than the middleware waits for it, where a test asks for that
    return f"secret of {name}"


@app.task(run_in="process")
def where() -> int:
    return os.getpid()


@app.task(run_in="process")
def meet(folder: str, count: int) -> int:
    """Returns when so many of these run at the same time."""
    Path(folder, f"{os.getpid()}").touch()
    while len(os.listdir(folder)) < count:
        time.sleep(0.01)  # between two looks: it waits for the other processes, not for a time
    return os.getpid()


@app.task(run_in="process")
def wait_for(path: str) -> str:
    """Says that it runs, and returns when it may."""
    Path(f"{path}.runs").touch()
    while not Path(path).exists():
        time.sleep(0.01)  # between two looks: it waits until the test lets it go, not for a time
    return path


@app.task(run_in="process")
def hang_with_a_child(path: str) -> None:
    started = subprocess.Popen(LINGERS)
    Path(path).write_text(str(started.pid))
    time.sleep(3600)  # a function that hangs: its timeout kills it, and must kill what it started as well


@app.task(run_in="process")
def die_before_a_child(path: str, how: str) -> None:
    """Is killed while a process that it started goes on, and holds whatever it could inherit."""
    if how == "fork":
        pid = os.fork()
        if pid == 0:
            time.sleep(3600)  # outlives its parent, with all that it inherited, until the test has looked
    else:
        pid = subprocess.Popen(LINGERS, close_fds=False).pid
    Path(path).write_text(str(pid))
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(run_in="process")
def talk_nonsense() -> str:
    """Writes into whatever socket it finds, as a function does that guesses descriptors."""
    for descriptor in range(3, 64):
        try:
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                os.write(descriptor, b"\x00\x00\x00\x03abc")
        except OSError:
            continue
    return "nonsense"


@app.task(run_in="process")
def inheritable_sockets() -> list[int]:
    found = []
    for descriptor in range(3, 64):
        try:
            is_socket = stat.S_ISSOCK(os.fstat(descriptor).st_mode)
        except OSError:
            continue
        if is_socket and os.get_inheritable(descriptor):
            found.append(descriptor)
    return found


@app.task(name="namesake", run_in="process")
def of_app() -> str:
    return "app"


@other.task(name="namesake", run_in="process")
def of_other() -> str:
    return "other"


@app.task
async def on_the_loop() -> str:
    return "loop"


@app.task(run_in="process")
def answer_for_another() -> str:
    """Sends an answer to an assignment that this child does not have."""
    forged = frame(Returned(0, msgspec.msgpack.encode("forged")))
    for descriptor in range(3, 64):
        try:
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                os.write(descriptor, forged)
        except OSError:
            continue
    time.sleep(3600)  # its true answer never comes: only the forged one could be taken for it
    return "mine"
