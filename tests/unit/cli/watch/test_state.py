"""What keys mean."""

from __future__ import annotations

import time

import pytest

from headrace.admin.place import Place
from headrace.cli.watch.state import WatchAction, WatchState

from .snapshots import queue_names, snapshot, state_of

BILLING = Place(None, "orders", "billing")


def press(state: WatchState, *keys: str) -> object:
    """What the last of the keys asks for."""
    return [state.press(key) for key in keys][-1]


def test_the_first_row_is_selected_and_arrows_and_letters_move() -> None:
    state = state_of()
    assert [str(row.place) for row in state.rows] == ["default", "mails", "lonely", "orders/billing"]
    assert state.selected == Place("default")
    press(state, "down", "j", "down")
    assert state.selected == BILLING
    press(state, "j", "page down")
    assert state.selected == BILLING
    press(state, "up", "k")
    assert state.selected == Place("mails")
    press(state, "end")
    assert state.selected == BILLING
    press(state, "home", "k")
    assert state.selected == Place("default")


def test_p_pauses_what_goes_on_and_resumes_what_is_paused() -> None:
    state = state_of()
    assert press(state, "p") == WatchAction("pause", Place("default"))
    assert press(state, "down", "p") == WatchAction("resume", Place("mails"))
    assert press(state, "end", "p") == WatchAction("pause", BILLING)


def test_r_asks_and_only_y_replays() -> None:
    state = state_of()
    assert press(state, "down", "r") is None
    assert state.asking == WatchAction("replay", Place("mails"), 2)
    assert press(state, "y") == WatchAction("replay", Place("mails"), 2)
    assert state.asking is None
    for other in ("r", "n", "enter", "escape", "q", "down"):
        assert press(state, "r", other) is None
        assert (state.asking, state.message) == (None, "nothing was changed")
    assert state.selected == Place("mails")


def test_without_dead_letters_there_is_nothing_to_ask() -> None:
    state = state_of()
    assert press(state, "r") is None
    assert (state.asking, state.message) == (None, "queue default has no dead letters")


def test_a_topic_without_groups_cannot_be_steered() -> None:
    state = state_of()
    assert press(state, "down", "down", "p") is None
    assert "no group reads lonely" in state.message


@pytest.mark.parametrize("key", ["q", "Q", "escape"])
def test_it_is_left(key: str) -> None:
    assert state_of().press(key) == WatchAction("quit")


def test_help_is_left_by_any_key_and_q_quits_there_too() -> None:
    state = state_of()
    assert press(state, "?") is None
    assert state.showing_help
    assert press(state, "escape") is None
    assert not state.showing_help
    assert press(state, "?", "p") is None
    assert press(state, "?", "q") == WatchAction("quit")


def test_the_name_of_the_store_is_the_one_it_has_once_it_has_answered() -> None:
    state = WatchState("Redis at localhost")
    state.update(snapshot(), [])
    assert state.store == "SQLite file jobs.db"


def test_one_thing_at_a_time() -> None:
    state = state_of()
    state.running = WatchAction("replay", Place("mails"), 2)
    assert press(state, "p") is None
    assert (state.is_error, "still replaying mails" in state.message) == (True, True)
    assert press(state, "j") is None
    assert state.message == ""


def test_the_selection_stays_with_its_queue_when_others_come_and_go() -> None:
    state = state_of(snapshot(queue_names(5), []))
    press(state, "j", "j", "j")
    state.update(snapshot(queue_names(5)[2:], []), [])
    assert state.selected == Place("queue-03")
    state.update(snapshot(queue_names(2), []), [])
    assert state.selected == Place("queue-01")
    state.update(snapshot([], []), [])
    assert state.selected is None
    assert [press(state, key) for key in ("p", "r", "j", "end")] == [None] * 4
    state.update(snapshot(queue_names(2), []), [])
    assert state.selected == Place("queue-00")


def test_a_store_is_lost_when_it_says_so_or_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    state = state_of()
    now[0] += 3600  # the times between two looks do not count
    assert state.problem == ""
    state.ask()
    now[0] += 2
    assert state.problem == ""
    now[0] += 2
    assert state.problem == "no answer for 4 s"
    state.fail("the server is gone")
    assert state.problem == "the server is gone"
    state.ask()
    assert state.problem == "the server is gone"
    state.update(snapshot(), [])
    assert state.problem == ""
