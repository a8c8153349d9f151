"""What the recorder takes for a flood."""

from __future__ import annotations

from headrace.core.messages.claim import Claim
from headrace.core.messages.outcome import DONE
from headrace.engine.history.entries import EntryMaker
from headrace.engine.history.keeping import HistoryKeeping
from headrace.engine.history.recorder import HistoryRecorder
from headrace.engine.history.sample import MOST
from headrace.engine.running.finished import FinishedRun
from tests.unit.engine.bench import SOURCE, Bench


def recorder_of(bench: Bench) -> HistoryRecorder:
    keeping = HistoryKeeping(1000)
    return HistoryRecorder(
        bench.backend, EntryMaker("worker", keeping), keeping, held=bench.held, emitter=bench.emitter
    )


def finished(count: int) -> list[FinishedRun]:
    return [FinishedRun(Claim(SOURCE, str(number), b"", None, claimed_us=1), DONE) for number in range(count)]


async def test_a_flood_whose_write_takes_seconds_is_no_quiet_second(bench: Bench) -> None:
    """Else the jobs behind it are recorded as they come, and the slowest of them find no room."""
    recorder = recorder_of(bench)
    flood = finished(MOST + 1)
    bench.held.take([each.claim for each in flood])
    assert recorder.attached(flood, repeated=False) == flood
    await recorder._record()  # the write is still under way
    await recorder._record()
    for each in flood:
        bench.held.drop(each.claim)
    few = finished(2)
    assert recorder.attached(few, repeated=False) == few
    await recorder._record()
    assert [each.record for each in recorder.attached(few, repeated=False)] != [None, None]
