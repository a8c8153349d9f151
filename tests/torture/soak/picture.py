"""The picture of a soak as SVG: memory of the workers, rate, and faults over time. It needs nothing from
elsewhere, and follows the light or dark scheme of its reader."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise
from math import ceil
from typing import Final

from .outcome import ArmOutcome, Findings
from .trend import Point, by_the_minute

WIDTH: Final = 960
LEFT: Final = 190
RIGHT: Final = 20
PANEL: Final = 170
GAP: Final = 46
TOP: Final = 76
ROW: Final = 15

STYLE: Final = """
  .paper { fill: #ffffff } .word { fill: #1f2328; font: 12px system-ui, sans-serif }
  .head { font-weight: 600; font-size: 13px } .small { font-size: 11px; fill: #59636e }
  .rule { stroke: #d1d9e0; stroke-width: 1 } .warm { fill: #818b981f }
  .line { fill: none; stroke-width: 1.6 } .first { stroke: #0969da } .second { stroke: #bc4c00 }
  .dot-first { fill: #0969da } .dot-second { fill: #bc4c00 }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #0d1117 } .word { fill: #f0f6fc } .small { fill: #9198a1 } .rule { stroke: #3d444d }
    .first { stroke: #4493f8 } .second { stroke: #f0883e }
    .dot-first { fill: #4493f8 } .dot-second { fill: #f0883e }
  }
"""

#: The class of each arm.
CLASSES: Final = ("first", "second")


def picture(findings: Findings) -> str:
    return "\n".join(Picture(findings).lines()) + "\n"


class Picture:
    """Panels above each other, with one axis of time."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._arms = findings.outcome.arms
        self._seconds = max((arm.seconds for arm in self._arms), default=1.0)
        self._kinds = sorted({fault.name for arm in self._arms for fault in arm.faults})

    def lines(self) -> Iterator[str]:
        faults = TOP + 2 * (PANEL + GAP)
        bottom = faults + ROW * len(self._kinds) + 10
        height = bottom + 40
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
            f'height="{height}" role="img">'
        )
        yield "<title>A soak: memory of workers, rate and faults over time</title>"
        yield f"<style>{STYLE}</style>"
        yield f'<rect class="paper" width="{WIDTH}" height="{height}"/>'
        yield from self._legend()
        warm = max((arm.warm for arm in self._arms), default=0.0)
        width = self._x(warm) - LEFT
        yield f'<rect class="warm" x="{LEFT}" y="{TOP}" width="{width:.1f}" height="{bottom - TOP}"/>'
        yield _text(LEFT + 4, TOP + PANEL - 8, "warm-up", "small")
        yield from self._panel(TOP, "memory of a worker, MB", [self._memory(arm) for arm in self._arms])
        yield from self._panel(TOP + PANEL + GAP, "runs in a second", [self._rate(arm) for arm in self._arms])
        yield from self._faults(faults)
        yield from self._time(bottom)
        yield "</svg>"

    def _legend(self) -> Iterator[str]:
        yield _text(20, 28, "Steady load with rare faults", "head")
        for number, (arm, kind) in enumerate(zip(self._arms, CLASSES, strict=False)):
            x = LEFT + 60 + 150 * number
            yield f'<line class="line {kind}" x1="{x}" x2="{x + 24}" y1="24" y2="24"/>'
            yield _text(x + 30, 28, arm.store)

    def _memory(self, arm: ArmOutcome) -> list[Point]:
        """The memory of the worker that no fault ends."""
        series = self._findings.series(arm, "worker", "rss")
        spared = next((series[name] for name in arm.spared if name in series), [])
        return [Point(point.at, point.value / 1e6) for point in spared]

    def _rate(self, arm: ArmOutcome) -> list[Point]:
        return by_the_minute(Point(at, rate) for at, rate in arm.rates)

    def _panel(self, top: float, words: str, series: Sequence[list[Point]]) -> Iterator[str]:
        yield _text(20, top - 12, words, "head")
        most = _round_up(max((point.value for points in series for point in points), default=1.0))
        for part in range(5):
            y = top + PANEL - PANEL * part / 4
            yield f'<line class="rule" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            yield _text(LEFT - 8, y + 4, f"{most * part / 4:g}", "small", anchor="end")
        for points, kind in zip(series, CLASSES, strict=False):
            places = " ".join(
                f"{self._x(point.at):.1f},{top + PANEL - PANEL * point.value / most:.1f}" for point in points
            )
            yield f'<polyline class="line {kind}" points="{places}"/>'

    def _faults(self, top: float) -> Iterator[str]:
        yield _text(20, top - 14, "faults", "head")
        for row, name in enumerate(self._kinds):
            y = top + ROW * row + ROW / 2
            yield _text(LEFT - 8, y + 4, name, "small", anchor="end")
            yield f'<line class="rule" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            for arm, kind in zip(self._arms, CLASSES, strict=False):
                for x in (self._x(fault.begin) for fault in arm.faults if fault.name == name):
                    yield f'<circle class="dot-{kind}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>'

    def _time(self, y: float) -> Iterator[str]:
        marks = [self._seconds * part / 6 for part in range(7)]
        for first, second in pairwise([*marks, marks[-1]]):
            minutes = first / 60
            anchor = "end" if first == second else "middle"
            yield _text(self._x(first), y + 18, f"{minutes:.0f} min", "small", anchor=anchor)

    def _x(self, seconds: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * min(1.0, max(0.0, seconds / self._seconds))


def _text(x: float, y: float, words: str, kind: str = "", *, anchor: str = "start") -> str:
    return f'<text class="word {kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _round_up(value: float) -> float:
    """To a number that divides well into four."""
    step = 4.0
    while value > 20 * step:
        step *= 5
    return max(step, ceil(value / step) * step)
