"""What a run logs, from several threads, and from finalisers that the collector runs whenever it likes."""

from __future__ import annotations

import threading
from collections.abc import Callable

from headrace.core.messages.job_log import LogLine
from headrace.engine.running.job_log.run_log import RunLog


class Intrusive(LogLine, frozen=True, gc=False):
    """A line during whose adding something else happens, as when the collector runs just then."""

    meanwhile: Callable[[], object] = lambda: None

    @property
    def size(self) -> int:
        self.meanwhile()
        return 1


def line(text: str) -> LogLine:
    return LogLine(1, 0, "info", text)


def ends(function: Callable[[], object]) -> bool:
    """Whether it comes to an end, in a thread that is left behind if it does not."""
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    thread.join(5)
    return not thread.is_alive()


def test_a_finaliser_that_logs_while_a_line_is_added_does_not_wait_for_itself() -> None:
    log = RunLog(10)
    intrusive = Intrusive(1, 0, "info", "mine", meanwhile=lambda: log.add(line("unclosed")))
    assert ends(lambda: log.add(intrusive))
    assert [each.text for each in log.so_far(0).lines] == ["unclosed", "mine"]


def test_whoever_reads_does_not_wait_for_a_thread_that_writes() -> None:
    log = RunLog(10)
    log.add(line("first"))
    inside, go_on = threading.Event(), threading.Event()

    def meanwhile() -> None:
        inside.set()
        go_on.wait(5)

    writer = threading.Thread(target=log.add, args=(Intrusive(1, 0, "info", "slow", meanwhile=meanwhile),))
    writer.start()
    assert inside.wait(5)
    read: list[str] = []
    assert ends(lambda: read.extend(each.text for each in log.so_far(0).lines))
    assert read == ["first"]
    go_on.set()
    writer.join()
    assert log.unwritten
    assert [each.text for each in log.so_far(0).lines] == ["first", "slow"]


def test_what_was_taken_is_not_told_again() -> None:
    log = RunLog(2)
    log.add(line("a"), line("b"), line("c"), dropped=4)
    lines, dropped = log.taken()
    assert ([each.text for each in lines], dropped, log.unwritten) == (["b", "c"], 5, False)
    log.add(line("d"))
    lines, dropped = log.taken()
    assert ([each.text for each in lines], dropped) == (["d"], 0)
