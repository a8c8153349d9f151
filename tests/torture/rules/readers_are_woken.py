"""Who waits for a result gets it: a wait does not time out when the job had ended well before. The last five
seconds, and those of a fault, do not count. A server whose clock is set ahead forgets who waits: a reader
says so again within twenty seconds."""

from __future__ import annotations

from collections.abc import Iterator

from tests.torture.history import History

#: Seconds within which a reader must hear of the end, also when the news of it was lost.
PATIENCE = 5.0

#: Seconds after which a reader registers again.
REMINDED = 20.0


def check(history: History) -> Iterator[tuple[str, str]]:
    for story in history.stories():
        ends = [run.end for run in story.runs_of("") if run.succeeded]
        for fact in story.unread:
            # A success that was not written before its worker was gone comes again: the last one counts.
            if ends and max(ends) + history.lease + PATIENCE < fact.at:
                since = max(ends)
                hit = [fault for fault in history.faults_between(since, fact.at) if fault.hits(fact.process)]
                forgotten = any(
                    fault.ahead and fault.end + REMINDED + PATIENCE > fact.at
                    for fault in history.faults_between(0.0, fact.at)
                )
                if not forgotten and not any(fault.end + PATIENCE > fact.at for fault in hit):
                    yield (
                        story.name,
                        f"a reader waited in vain; the job had ended {fact.at - since:.1f} s before",
                    )
