"""Carries out what a person wishes, tells how far it is and what was done. Nothing here raises."""

from __future__ import annotations

from typing import Final

from headrace.admin.place import Place
from headrace.app import App
from headrace.cli.render import counted, short
from headrace.core.errors import HeadraceError

from .panel import Panel, Pause, Replay

#: Dead letters asked for and replayed at once.
STEP: Final = 200


class Steering:
    """Through the verbs of the admin alone."""

    def __init__(self, app: App, panel: Panel) -> None:
        self._admin = app.admin
        self._panel = panel

    async def carry_out(self, wish: Pause | Replay) -> None:
        panel = self._panel
        try:
            panel.busy, panel.done = "…", 0.0
            said = await (self._pause(wish) if isinstance(wish, Pause) else self._replay(wish.place))
            panel.say(said)
        except HeadraceError as error:
            panel.say(f"{panel.busy.rstrip('… ') or 'nothing done'}: {short(str(error))}", bad=True)
        finally:
            panel.busy = ""

    async def _pause(self, wish: Pause) -> str:
        place, admin = wish.place, self._admin
        self._panel.busy = f"{'pausing' if wish.paused else 'resuming'} {place}"
        if place.topic is not None and place.group is not None:
            act = admin.pause_group if wish.paused else admin.resume_group
            await act(place.topic, place.group)
        elif place.queue is not None:
            await (admin.pause if wish.paused else admin.resume)(place.queue)
        return f"{place} is paused; p lets it go on" if wish.paused else f"{place} goes on"

    async def _replay(self, place: Place) -> str:
        ids = await self._dead(place)
        replayed, kept = 0, 0
        for start in range(0, len(ids), STEP):
            self._tell("replaying", place, start, len(ids))
            answer = await self._admin.replay(ids=ids[start : start + STEP], **place.options)
            replayed += int(answer)
            kept += len(answer.duplicates)
        said = f"{counted(replayed, 'dead letter')} of {place} replayed"
        return f"{said}; {kept:,} stay dead: other jobs hold their unique keys by now" if kept else said

    async def _dead(self, place: Place) -> list[str]:
        """All ids first: what is replayed must not shift the pages behind it."""
        ids: list[str] = []
        cursor: str | None = None
        while True:
            page = await self._admin.dead(**place.options, cursor=cursor, limit=STEP)
            ids += [letter.id for letter in page]
            self._panel.busy = f"replaying {place}: {len(ids):,} found"
            cursor = page.cursor
            if cursor is None:
                return ids

    def _tell(self, what: str, place: Place, done: int, total: int) -> None:
        self._panel.busy = f"{what} {place}: {done:,} of {total:,}"
        self._panel.done = done / total
