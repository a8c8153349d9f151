"""A round: a process comes to harm at one point, others finish its work, and the checker reads the logs."""

from __future__ import annotations

import asyncio
import multiprocessing
import shutil
import signal
import time
from collections.abc import Iterator
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Final, Literal

import msgspec

from tests.torture.checker import Broken, broken_rules, told
from tests.torture.facts import Recorder, read_all
from tests.torture.history import History

from .point import Harm, Harmed, Point
from .probe import ReachedPoints
from .process import Order, read_seen, run
from .stores import Lane

#: Seconds after which a process hangs, and one that makes a call again and again.
HANGS: Final = 60.0
CALLS_END: Final = 300.0

#: Seconds of the leases: others wait for those of a process that was killed. Where nothing is killed, nothing
#: waits for them, and a busy machine must not lose one.
SHORT_LEASE: Final = 2.0
LONG_LEASE: Final = 10.0

#: What Python or asyncio writes when something was forgotten.
FORGOTTEN: Final = (
    "was never awaited",
    "was never retrieved",
    "was destroyed but it is pending",
    "Exception ignored",
)

#: How often a round is repeated when its process did not come by the point: it depends on timing.
TRIES: Final = 3

#: The parts that come to harm, and what must be in the store before.
PARTS: Final = ("events", "steering", "control", "loops", "jobs", "children", "recovery")


class CrashRound(msgspec.Struct, frozen=True):
    part: str
    point: Point
    harm: Harm

    def __str__(self) -> str:
        return f"{self.harm} {self.part}: {self.point}"


class CrashResult(msgspec.Struct, frozen=True):
    """`missed`: the process did not come by its point. `why`: what is broken."""

    round: CrashRound
    state: Literal["held", "broken", "missed"]
    why: str = ""
    seconds: float = 0.0


async def enumerate_points(lane: Lane, part: str) -> ReachedPoints:
    """Every point that a part passes when nothing happens to it."""
    url, folder = lane.fresh()
    await _prepare(part, url, folder, SHORT_LEASE)
    code = await _run(Order("victim", (part,), url, str(folder), SHORT_LEASE))
    assert code == 0, f"{part} ended with {code}:\n{_output(folder)}"
    return read_seen(folder / "victim.seen")


async def run_round(lane: Lane, plan: CrashRound) -> CrashResult:
    began = time.monotonic()
    for _ in range(TRIES):
        url, folder = lane.fresh()
        why = await _why_broken(plan, url, folder)
        hit = any(fact.value.startswith(plan.harm) for fact in read_all(folder) if fact.kind == "fault_begun")
        if why or hit:
            break
    state: Literal["held", "broken", "missed"] = "broken" if why else "held" if hit else "missed"
    result = CrashResult(plan, state, why, time.monotonic() - began)
    if state != "broken":
        shutil.rmtree(folder)
    return result


class CallResult(msgspec.Struct, frozen=True):
    """A public call that was cancelled at each of its waits. `cancellations`: how often; `why`: what is
    broken."""

    name: str
    cancellations: int
    why: str = ""


async def run_call(lane: Lane, name: str) -> CallResult:
    url, folder = lane.fresh()
    code = await _run(Order("victim", (f"calls:{name}", "recovery"), url, str(folder), LONG_LEASE), CALLS_END)
    begun = sum(fact.kind == "fault_begun" and fact.value.startswith(name) for fact in read_all(folder))
    why = f"ended with {code}:\n{_output(folder)}" if code else "\n".join(_findings(name, folder, LONG_LEASE))
    if not why:
        shutil.rmtree(folder)
    return CallResult(name, begun - 2, why)  # the last of both kinds was not reached


async def _why_broken(plan: CrashRound, url: str, folder: Path) -> str:
    kills = plan.harm == "kill"
    lease = SHORT_LEASE if kills or plan.part == "recovery" or plan.point.verb == "renew" else LONG_LEASE
    await _prepare(plan.part, url, folder, lease)
    harmed = Harmed(plan.point, plan.harm)
    recorder = Recorder(folder, "victim")
    parts = (plan.part,) if kills else (plan.part, "recovery")
    code = await _run(Order("victim", parts, url, str(folder), lease, harmed))
    if kills:
        for fact in read_all(folder):
            if fact.kind == "fault_begun" and fact.process == "victim" and not fact.gentle:
                recorder.write("fault_ended", run=fact.run, value=fact.value)
        recorder.write("gone", value=str(code))
        if code not in (0, -signal.SIGKILL):
            return f"the victim ended with {code}:\n{_output(folder)}"
        code = await _run(Order("successor", ("recovery",), url, str(folder), lease))
    if code != 0:
        return f"the last process ended with {code}:\n{_output(folder)}"
    return "\n".join(_findings(str(plan), folder, lease))


def _findings(title: str, folder: Path, lease: float) -> Iterator[str]:
    history = History(read_all(folder), lease=lease)
    broken = [each for each in broken_rules(history) if not _is_planned(title, each)]
    if broken:
        yield from told(history, broken, title)
    output = _output(folder)
    for word in FORGOTTEN:
        if word in output:
            yield f"{word}:\n{output}"
            return


def _is_planned(title: str, broken: Broken) -> bool:
    """Whether a handler failed because its own call was cancelled, as the round demands."""
    return title.startswith("cancel") and "CancelledError" in broken.why


async def _prepare(part: str, url: str, folder: Path, lease: float) -> None:
    """Recovery needs something to recover."""
    if part == "recovery":
        code = await _run(Order("first", ("abandon",), url, str(folder), lease))
        assert code == -signal.SIGKILL, f"the first process ended with {code}:\n{_output(folder)}"
        recorder = Recorder(folder, "first")
        recorder.write("fault_ended", value="abandoned", run="abandoned")
        recorder.write("gone", value=str(code))


def _output(folder: Path) -> str:
    """What the processes wrote, without planned failures."""
    return "\n".join(
        f"--- {path.stem}\n{path.read_text(errors='replace')[-6000:]}"
        for path in sorted(folder.glob("*.txt"))
    )


_context: ForkServerContext | None = None


def _forks() -> ForkServerContext:
    """Processes are forked from one that has imported everything: that takes milliseconds."""
    global _context
    if _context is None:
        _context = multiprocessing.get_context("forkserver")
        _context.set_forkserver_preload([f"{__package__}.preloaded"])
    return _context


async def _run(order: Order, timeout: float = HANGS) -> int | None:
    """The exit code of a process; None: it hangs, and was killed."""
    process = _forks().Process(target=run, args=(order, timeout))
    process.start()
    if not await _ended(process.sentinel, timeout):
        process.kill()
        await _ended(process.sentinel, HANGS)
        return None
    code = process.exitcode
    process.close()
    return code


async def _ended(sentinel: int, timeout: float) -> bool:
    """Whether a process has ended in time. Its end is read on this thread: two that read it hinder each
    other."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(sentinel, ended.set)
    try:
        await asyncio.wait_for(ended.wait(), timeout)
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(sentinel)
    return True
