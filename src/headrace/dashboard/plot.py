"""Small plots as SVG, drawn on the server: no script, no library, no inline style."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

WIDTH, HEIGHT = 240, 40


def sparkline(values: Sequence[float], label: str, kind: str = "done") -> Markup:
    """Bars from the oldest to the latest, as high as the highest of them."""
    highest = max(values, default=0) or 1
    step = WIDTH / max(len(values), 1)
    bars = "".join(
        f'<rect x="{place * step:.1f}" y="{HEIGHT - value / highest * HEIGHT:.1f}" '
        f'width="{max(step - 0.5, 0.5):.1f}" height="{value / highest * HEIGHT:.1f}"/>'
        for place, value in enumerate(values)
        if value
    )
    return Markup(
        '<svg class="plot {}" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" '
        'aria-label="{}">{}</svg>'
    ).format(kind, WIDTH, HEIGHT, label, Markup(bars))
