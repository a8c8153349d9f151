"""Small graphs of block characters: a bar for each minute, or for a few together where there is less room."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.text import Text

#: Nothing is the lowest, so that a quiet hour still is a line.
BLOCKS: Final = "▁▂▃▄▅▆▇█"

#: Widths at which each bar stands for as many minutes of an hour.
WIDTHS: Final = (60, 30, 20, 15, 12, 10, 6)


def fitting(room: int) -> int:
    """The widest graph that fits; 0: none."""
    return next((width for width in WIDTHS if width <= room), 0)


def sparkline(counts: Sequence[int], width: int, style: str, *, bad: Sequence[int] = ()) -> Text:
    """The latest on the right, and the highest as high as it goes. Where half of what is counted, or more, is
    `bad`, it is red."""
    bars = _gathered(counts, width)
    spoilt = _gathered(bad, width)
    highest = max(bars, default=0)
    graph = Text()
    for bar, part in zip(bars, spoilt, strict=True):
        colour = "red" if 2 * part >= bar else style
        graph.append(BLOCKS[_level(bar, highest)], colour if bar else "dim")
    return graph


def meter(part: float, width: int, style: str) -> Text:
    """How much of a whole, as a bar from the left."""
    full = min(width, max(round(part * width), 1 if part > 0 else 0))
    return Text("█" * full, style).append("░" * (width - full), "dim")


def _gathered(counts: Sequence[int], width: int) -> list[int]:
    size = -(-len(counts) // width) or 1
    padded = [0] * (size * width - len(counts)) + list(counts)
    return [sum(padded[start : start + size]) for start in range(0, len(padded), size)]


def _level(bar: int, highest: int) -> int:
    """Whatever is not nothing stands above it."""
    return 1 + (bar * (len(BLOCKS) - 2)) // highest if bar else 0
