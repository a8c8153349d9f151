"""The screen at sizes that terminals have."""

from __future__ import annotations

import io
import itertools
import re

import pytest
from rich.cells import cell_len
from rich.console import Console

from headrace.admin import QueueInfo
from headrace.admin.place import Place
from headrace.cli.watch.state import WatchAction, WatchState
from headrace.cli.watch.view import frame
from headrace.core.records.findings import Finding, Level

from .snapshots import drawn, queue_names, snapshot, state_of, worker

SIZES = [(80, 24), (120, 40), (200, 60), (60, 15), (60, 8), (40, 10), (30, 5), (10, 3), (80, 1)]


def shown(state: WatchState, width: int, height: int) -> list[str]:
    return drawn(frame(state, width, height), width, height)


def text(state: WatchState, width: int = 80, height: int = 24) -> str:
    return "\n".join(shown(state, width, height))


def selected(state: WatchState, width: int, height: int) -> list[str]:
    return [line for line in shown(state, width, height) if line.startswith("▸")]


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("case", ["usual", "help", "asking", "busy", "lost", "new", "empty", "many"])
def test_it_fits(case: str, width: int, height: int) -> None:
    state = state_of()
    match case:
        case "help":
            state.press("?")
        case "asking":
            state.press("j")
            state.press("r")
        case "busy":
            state.running = WatchAction("replay", Place("mails"), 1000)
        case "lost":
            state.fail("the server at 127.0.0.1:6379 cannot be reached: connection refused")
        case "new":
            state = WatchState("SQLite file jobs.db")
        case "empty":
            state = state_of(snapshot([], [], []))
        case "many":
            workers = [worker(f"vm:{number}") for number in range(50)]
            state = state_of(snapshot(queue_names(100), [], workers))
        case _:
            pass
    lines = shown(state, width, height)
    assert len(lines) == height
    # What is longer is cut when it is drawn; the table itself has to fit.
    tables = [line for line in lines if line.startswith(("▸", "  queue"))]
    assert all(cell_len(line) <= width for line in tables if width >= 60)


def test_the_overview_has_all_that_one_looks_for() -> None:
    lines = shown(state_of(), 120, 40)
    assert lines[0].startswith("headrace  SQLite file jobs.db")
    assert re.search(r"\d\d:\d\d:\d\d$", lines[0])
    assert "! 2 dead in mails" in lines[1:3]
    table = {line.split()[0]: line.split()[1:] for line in lines if line.strip()}
    assert table["queue"][:8] == [
        *("waiting", "running", "scheduled", "retrying", "dead", "oldest", "done/s", "failed/s")
    ]
    assert table["▸"][:6] == ["default", "120", "10", "0", "1", "0"]
    assert table["mails"][:6] == ["0", "0", "14", "0", "2", "paused"]
    assert table["orders/billing"][:5] == ["318", "4", "0", "0", "1"]
    assert table["lonely"][:2] == ["no", "group"]
    assert "960 in the last hour" in text(state_of(), 120, 40)
    assert "6 failed (0.6 %)" in text(state_of(), 120, 40)
    assert table["vm:1:a"][:2] == ["███░░░░░░░", "3/10"]


@pytest.mark.parametrize("width", [72, 80, 100, 120, 160])
def test_each_queue_has_a_graph_of_the_last_hour(width: int) -> None:
    [row] = selected(state_of(), width, 24)
    assert re.search(r"▁+█|▁+▂*[▂-█]+", row)


def test_where_there_is_room_there_is_one_of_failures_too() -> None:
    [narrow], [wide] = selected(state_of(), 80, 24), selected(state_of(), 160, 24)
    assert len(re.findall(r"[▁-█]{6,}", narrow)) == 1
    assert len(re.findall(r"[▁-█]{6,}", wide)) == 2


def test_what_needs_attention_stands_on_top_the_worst_first() -> None:
    state = state_of(snapshot(workers=[worker(polled_ago=50)]))
    state.findings = [Finding("eviction", Level.FAIL, "keys may be evicted", "set noeviction")]
    lines = [line for line in shown(state, 120, 40) if line.startswith("! ")]
    assert lines[0] == "! eviction: keys may be evicted (set noeviction)"
    assert "! 2 dead in mails" in lines
    assert any("vm:1:a has not asked for work for 50 s" in line for line in lines)


def test_attention_leaves_room_for_the_rest_and_says_how_much_is_left_out() -> None:
    state = state_of()
    state.findings = [Finding(f"finding {number}", Level.WARN, "bad") for number in range(40)]
    lines = shown(state, 80, 24)
    assert len([line for line in lines if line.startswith("! ")]) <= 6
    assert any(re.search(r"and \d+ more", line) for line in lines)
    assert selected(state, 80, 24)
    short = shown(state, 80, 8)
    assert re.search(r"! .* \(and \d+ more\)$", short[1])


@pytest.mark.parametrize(("width", "height"), [(80, 24), (60, 15), (60, 8), (40, 5), (40, 4)])
def test_the_selected_row_is_always_seen(width: int, height: int) -> None:
    state = state_of(snapshot(queue_names(40)))
    for number in range(len(state.rows)):
        [row] = selected(state, width, height)
        assert str(state.selected)[-5:] in row, number
        state.press("down")


def test_rows_that_do_not_fit_are_counted() -> None:
    state = state_of(snapshot(queue_names(40), []))
    [below] = [line for line in shown(state, 80, 24) if line.strip().startswith("↓")]
    count = sum("queue-" in line for line in shown(state, 80, 24))
    assert below.strip() == f"↓ {40 - count} more"
    state.press("end")
    [above] = [line for line in shown(state, 80, 24) if line.strip().startswith("↑ ")]
    assert above.strip() == f"↑ {40 - count} more"


def test_many_workers_are_summed_up_where_there_is_no_room() -> None:
    state = state_of(snapshot(workers=[worker(f"vm:{number:02}") for number in range(40)]))
    assert "40 workers, 120 of 400 slots busy" in text(state, 120, 30)
    assert "vm:00" in text(state, 120, 30)
    assert "vm:00" not in text(state, 80, 11)
    assert "40 workers, 120 of 400 slots busy" in text(state, 80, 11)


def test_columns_go_one_by_one_as_it_gets_narrow() -> None:
    state = state_of()
    headings = {
        width: next(line for line in shown(state, width, 24) if line.startswith("  queue")).split()
        for width in (120, 80, 60, 50)
    }
    assert "scheduled" in headings[120]
    assert "sched" in headings[80]
    assert "sched" not in headings[60]
    for names in headings.values():
        assert names[0] == "queue"
        assert {"dead", "done/s"} <= set(names)
    for wider, narrower in itertools.pairwise(headings.values()):
        assert len(narrower) <= len(wider)


def test_a_lost_store_is_said_and_what_was_seen_stays() -> None:
    state = state_of()
    state.fail("the server cannot be reached")
    lines = shown(state, 80, 24)
    assert lines[0].startswith("headrace  unavailable since")
    assert lines[1] == "! the server cannot be reached"
    assert selected(state, 80, 24)
    state.update(snapshot(), [])
    assert "unavailable" not in text(state)


def test_a_store_that_was_never_seen_is_asked() -> None:
    state = WatchState("Redis at localhost")
    assert "asking the store" in text(state)
    state.fail("the server cannot be reached")
    assert "! the server cannot be reached" in text(state)


def test_the_question_the_progress_and_the_answer_stand_at_the_bottom() -> None:
    state = state_of()
    state.press("j")
    assert "p resume   r replay 2 dead" in shown(state, 80, 24)[-1]
    state.press("r")
    assert shown(state, 80, 24)[-2].startswith("Replay 2 dead letters of mails? y replays")
    assert shown(state, 80, 8)[-1].startswith("Replay 2 dead letters of mails?")
    state.running = state.press("y")
    state.update(snapshot([QueueInfo("mails", dead=1)]), [])
    assert shown(state, 80, 24)[-2].startswith("replaying mails: 1 of 2  ██████████░")
    state.running = None
    state.tell("1,000 dead letters of mails replayed")
    assert shown(state, 80, 24)[-2] == "1,000 dead letters of mails replayed"


def test_help_says_what_keys_do_also_on_a_narrow_terminal() -> None:
    state = state_of()
    state.press("?")
    for width in (80, 40):
        page = text(state, width, 40)
        assert all(word in page for word in ("pause it", "dead letters again", "Ctrl-Z", "oldest"))
        assert all(len(line) <= width for line in shown(state, width, 40)[1:-1])


def test_colours_are_for_terminals_that_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b[31m" in coloured()
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[[\d;]*3\dm", coloured())
    assert "\x1b[7m" in coloured()  # the selected row is seen nevertheless


def coloured() -> str:
    sink = io.StringIO()
    console = Console(file=sink, force_terminal=True, color_system="standard", width=120, height=40)
    console.print(frame(state_of(), 120, 40))
    return sink.getvalue()


def test_an_evil_name_steers_no_terminal() -> None:
    state = state_of()
    state.fail("\x1b[2Jgone\x07")
    state.findings = [Finding("\x1b[31m", Level.FAIL, "\u202ebad", "")]
    assert not set(text(state)) & {"\x1b", "\x07", "\u202e"}


def test_the_place_of_a_group_names_its_topic() -> None:
    state = state_of()
    state.press("end")
    assert state.selected == Place(None, "orders", "billing")
    [row] = selected(state, 80, 24)
    assert row.split()[1] == "orders/billing"
