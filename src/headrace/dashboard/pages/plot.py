"""Small plots as SVG, drawn on the server: they need no script, library or inline style."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from headrace.admin import Traffic
from headrace.dashboard.text import number

WIDTH: Final = 240
HEIGHT: Final = 40

#: The smallest height of a bar: a single failure among thousands must be visible.
LEAST: Final = 1.5


def plot(traffic: Traffic, name: str) -> Markup:
    """A bar for each minute, the latest on the right: successes, and failures on top of them."""
    columns = list(zip(traffic.done, traffic.failed, strict=True))
    highest = max((done + failed for done, failed in columns), default=0) or 1
    step = WIDTH / max(len(columns), 1)
    bars = Markup("").join(
        bar
        for index, (done, failed) in enumerate(columns)
        for bar in _bars(index * step, step, done * HEIGHT / highest, failed * HEIGHT / highest)
    )
    label = (
        f"{name}, the last {len(columns)} minutes: {number(sum(traffic.done))} done, "
        f"{number(sum(traffic.failed))} failed, at most {number(highest)} in a minute"
    )
    return Markup(
        '<svg class="plot" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}">'
        "<title>{}</title>{}</svg>"
    ).format(WIDTH, HEIGHT, label, label, bars)


def _bars(left: float, step: float, done: float, failed: float) -> list[Markup]:
    failed = max(failed, LEAST) if failed else 0.0
    done = min(max(done, LEAST), HEIGHT - failed) if done else 0.0
    heights: Sequence[tuple[str, float, float]] = (("good", done, done), ("bad", failed, done + failed))
    return [
        Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}"></rect>').format(
            tone, f"{left:.1f}", f"{HEIGHT - top:.1f}", f"{max(step - 0.5, 0.5):.1f}", f"{height:.1f}"
        )
        for tone, height, top in heights
        if height
    ]
