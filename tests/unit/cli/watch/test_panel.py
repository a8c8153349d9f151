"""What keys mean."""

from __future__ import annotations

import time

import pytest

from headrace.admin.place import Place
from headrace.cli.watch.panel import Panel, Pause, Quit, Replay

from .snapshots import panel_of, queue_names, snapshot

BILLING = Place(None, "orders", "billing")


def press(panel: Panel, *keys: str) -> object:
    """What the last of the keys asks for."""
    return [panel.press(key) for key in keys][-1]


def test_the_first_row_is_selected_and_arrows_and_letters_move() -> None:
    panel = panel_of()
    assert [str(row.place) for row in panel.rows] == ["default", "mails", "lonely", "orders/billing"]
    assert panel.selected == Place("default")
    press(panel, "down", "j", "down")
    assert panel.selected == BILLING
    press(panel, "j", "page down")
    assert panel.selected == BILLING
    press(panel, "up", "k")
    assert panel.selected == Place("mails")
    press(panel, "end")
    assert panel.selected == BILLING
    press(panel, "home", "k")
    assert panel.selected == Place("default")


def test_p_pauses_what_goes_on_and_resumes_what_is_paused() -> None:
    panel = panel_of()
    assert press(panel, "p") == Pause(Place("default"), True)
    assert press(panel, "down", "p") == Pause(Place("mails"), False)
    assert press(panel, "end", "p") == Pause(BILLING, True)


def test_r_asks_and_only_y_replays() -> None:
    panel = panel_of()
    assert press(panel, "down", "r") is None
    assert panel.asking == Replay(Place("mails"), 2)
    assert press(panel, "y") == Replay(Place("mails"), 2)
    assert panel.asking is None
    for other in ("r", "n", "enter", "escape", "q", "down"):
        assert press(panel, "r", other) is None
        assert (panel.asking, panel.said) == (None, "nothing was changed")
    assert panel.selected == Place("mails")


def test_without_dead_letters_there_is_nothing_to_ask() -> None:
    panel = panel_of()
    assert press(panel, "r") is None
    assert (panel.asking, panel.said) == (None, "queue default has no dead letters")


def test_a_topic_without_groups_cannot_be_steered() -> None:
    panel = panel_of()
    assert press(panel, "down", "down", "p") is None
    assert "no group reads lonely" in panel.said


@pytest.mark.parametrize("key", ["q", "Q", "escape"])
def test_it_is_left(key: str) -> None:
    assert panel_of().press(key) == Quit()


def test_help_is_left_by_any_key_and_q_quits_there_too() -> None:
    panel = panel_of()
    assert press(panel, "?") is None
    assert panel.helping
    assert press(panel, "escape") is None
    assert not panel.helping
    assert press(panel, "?", "p") is None
    assert press(panel, "?", "q") == Quit()


def test_one_thing_at_a_time() -> None:
    panel = panel_of()
    panel.busy = "replaying mails"
    assert press(panel, "p") is None
    assert (panel.is_bad, "under way" in panel.said) == (True, True)
    assert press(panel, "j") is None
    assert panel.said == ""


def test_the_selection_stays_with_its_queue_when_others_come_and_go() -> None:
    panel = panel_of(snapshot(queue_names(5), []))
    press(panel, "j", "j", "j")
    panel.show(snapshot(queue_names(5)[2:], []), [])
    assert panel.selected == Place("queue-03")
    panel.show(snapshot(queue_names(2), []), [])
    assert panel.selected == Place("queue-01")
    panel.show(snapshot([], []), [])
    assert panel.selected is None
    assert [press(panel, key) for key in ("p", "r", "j", "end")] == [None] * 4
    panel.show(snapshot(queue_names(2), []), [])
    assert panel.selected == Place("queue-00")


def test_a_store_is_lost_when_it_says_so_or_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    panel = panel_of()
    now[0] += 3600  # between two looks nobody waits
    assert panel.lost == ""
    panel.ask()
    now[0] += 2
    assert panel.lost == ""
    now[0] += 2
    assert panel.lost == "no answer for 4 s"
    panel.lose("the server is gone")
    assert panel.lost == "the server is gone"
    panel.ask()
    assert panel.lost == "the server is gone"
    panel.show(snapshot(), [])
    assert panel.lost == ""
