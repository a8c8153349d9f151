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


def finished(count: int, seconds: float = 0.0, name: str = "") -> list[FinishedRun]:
    return [
        FinishedRun(Claim(SOURCE, f"{name}{number}", b"", None, claimed_us=1), DONE, seconds=seconds)
        for number in range(count)
    ]


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


async def test_the_slowest_of_a_flood_find_room_though_it_began_slowly(bench: Bench) -> None:
    recorder = recorder_of(bench)
    few = [finished(5, name=f"{part}-") for part in range(8)]
    for batch in [*few, finished(MOST, name="quick-"), finished(MOST - 10, seconds=1.0, name="slow-")]:
        bench.held.take([each.claim for each in batch])
        recorder.ended(recorder.attached(batch, repeated=False))
    await recorder._record()
    recorded = await bench.backend.history(SOURCE, limit=1000)
    slow = [record for record in recorded if record.id.startswith("slow-")]
    assert len(slow) == MOST - 10
