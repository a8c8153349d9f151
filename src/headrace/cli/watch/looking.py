"""Looks at a store again and again, and now and then asks the doctor, beside it, since that may take long."""

from __future__ import annotations

import asyncio
import time

from headrace.app import App
from headrace.cli.commands.snapshot import Snapshot, look
from headrace.core.errors import HeadraceError
from headrace.core.examination import Finding, Level
from headrace.dashboard.checkup import FRESH, KNOWN


class Looking:
    """`await looking.look()`, as often as one likes; `close` at the end."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._asked = float("-inf")
        self._asking: asyncio.Task[None] | None = None
        self.findings: list[Finding] = []

    async def look(self) -> Snapshot:
        seen = await look(self._app)
        if time.monotonic() - self._asked > FRESH:
            self._asked = time.monotonic()
            self._asking = asyncio.create_task(self._ask())
        return seen

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    async def _ask(self) -> None:
        try:
            found = await self._app.admin.doctor()
        except (HeadraceError, NotImplementedError):
            return  # a store that is away is shown as such anyway
        self.findings = [each for each in found if each.level is not Level.OK and each.name not in KNOWN]
