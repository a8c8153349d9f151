"""All queues and groups together: what was done and what failed in the last hour."""

from __future__ import annotations

from typing import Final

from rich.text import Text

from .pace import total
from .panel import Panel
from .sparkline import fitting, sparkline
from .table import rate_text

#: Columns for what stands before and behind a graph.
BEFORE: Final = 18
BEHIND: Final = 26


def graphs(panel: Panel, width: int) -> list[Text]:
    """Two lines, each on a scale of its own."""
    traffic = panel.seen.traffic if panel.seen else []
    done, failed = total([each.done for each in traffic]), total([each.failed for each in traffic])
    behind = f"{sum(failed):,} failed ({_share(sum(failed), sum(done) + sum(failed))})"
    return [
        _line(panel, "done", done, "green", f"{sum(done):,} in the last hour", width),
        _line(panel, "failed", failed, "red", behind, width),
    ]


def _line(panel: Panel, name: str, counts: tuple[int, ...], style: str, behind: str, width: int) -> Text:
    line = Text(f"{name:<8}", style="bold")
    rate = rate_text(panel.pace.per_second(counts)).append("/s")
    rate.align("right", BEFORE - len(name.ljust(8)) - 2)
    room = fitting(width - BEFORE - BEHIND) or fitting(width - BEFORE)
    return Text.assemble(line, rate, "  ", sparkline(counts, room, style), "  ", (behind, "dim"))


def _share(part: int, whole: int) -> str:
    percent = 100 * part / whole if whole else 0.0
    return f"{percent:.0f} %" if percent >= 10 or not part else f"{max(percent, 0.1):.1f} %"
