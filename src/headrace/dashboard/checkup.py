"""What `headrace doctor` would say of the store, for the overview: asked for now and then, beside the pages,
since it may take seconds."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from headrace.app import App
from headrace.core.errors import HeadraceError
from headrace.core.examination import Finding, Level

#: Seconds for which findings are good enough.
FRESH: Final = 300.0

#: What the overview tells by itself, second by second.
KNOWN: Final = frozenset({"workers", "served", "paused", "groups", "dead letters"})


class Checkup:
    def __init__(self, app: App) -> None:
        self._app = app
        self._findings: list[Finding] = []
        self._asked = float("-inf")
        self._asking: asyncio.Task[None] | None = None

    def findings(self) -> list[Finding]:
        """What was wrong when it was last looked at; new findings show on one of the next pages."""
        if time.monotonic() - self._asked > FRESH:
            self._asked = time.monotonic()
            self._asking = asyncio.create_task(self._ask())
        return self._findings

    async def _ask(self) -> None:
        try:
            found = await self._app.admin.doctor()
        except (HeadraceError, NotImplementedError):
            return  # a store that is away is shown as such anyway
        self._findings = [each for each in found if each.level is not Level.OK and each.name not in KNOWN]
