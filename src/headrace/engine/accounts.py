"""What is done about claims once the store has answered: they are let go of, counted and told of."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from headrace.core.message import FRESH
from headrace.core.outcome import Done, Released, Verdict
from headrace.core.signals import JobSucceeded

from .announcer import Announcer
from .emitter import Emitter
from .finished import Finished
from .holdings import Holdings
from .tallier import Tallier

# Looked up once: a member of an enumeration is slower to get at than a global name.
_KEPT = Verdict.KEPT


class Accounts:
    """Of one worker."""

    def __init__(
        self,
        holdings: Holdings,
        *,
        tallier: Tallier,
        announcer: Announcer,
        emitter: Emitter,
        event_written: Callable[[Finished], None] | None,
        suspect_gone: Callable[[], None],
    ) -> None:
        self.processed = 0
        self.released = 0
        self._holdings = holdings
        self._tallier = tallier
        self._announcer = announcer
        self._emitter = emitter
        self._event_written = event_written  # None: the worker serves no events
        self._suspect_gone = suspect_gone

    def close(self, batch: list[Finished], verdicts: list[Verdict], doubtful: bool) -> None:
        """`doubtful`: an earlier try to write may have been carried out unseen."""
        pairs: Iterable[tuple[Finished, Verdict]] = zip(batch, verdicts, strict=True)
        if self._event_written is None and JobSucceeded not in self._emitter.wanted:
            # Nearly all: jobs that went well the first time, of which nobody wants to hear.
            rest = [
                (each, verdict)
                for each, verdict in pairs
                if verdict is not _KEPT or type(each.outcome) is not Done or each.claim.state is not FRESH
            ]
            special = {each.claim for each, _ in rest}
            self._close_plain([each for each in batch if each.claim not in special] if rest else batch)
            pairs = rest
        for finished, verdict in pairs:
            self._close(finished, verdict, doubtful)

    def _close_plain(self, batch: list[Finished]) -> None:
        self._holdings.drop_fresh(batch)
        self._tallier.count_done(batch)
        self.processed += len(batch)

    def _close(self, finished: Finished, verdict: Verdict, doubtful: bool) -> None:
        self._holdings.drop(finished.claim)
        if isinstance(finished.outcome, Released):
            self.released += 1
        else:
            self.processed += 1
        if verdict is _KEPT:
            self._tallier.count(finished)
        if self._event_written is not None:
            self._event_written(finished)
        if finished.claim.suspect:
            self._suspect_gone()  # the next one may be taken now, by any of the readers
        self._announcer.settled(finished, verdict, doubtful)
