"""Tables and progress as people see them."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from headrace.cli.output import progress
from headrace.cli.output.progress import ProgressBar
from headrace.cli.output.render import compact_json, printable, short
from headrace.cli.output.table import Column, FittedTable


def lines(listing: FittedTable, width: int) -> list[str]:
    sink = io.StringIO()
    Console(file=sink, width=width).print(listing)
    return [line.rstrip() for line in sink.getvalue().splitlines()]


def jobs_listing() -> FittedTable:
    listing = FittedTable(
        Column("id"),
        Column("task", keeps="end"),
        Column("attempts", right=True, spare=1),
        Column("note", keeps="start"),
    )
    listing.add("0" * 26, "shop.send_mail_to_all", "3", "ValueError: it could not be sent to anybody")
    return listing


def test_a_wide_table_shows_all() -> None:
    assert lines(jobs_listing(), 200)[-1] == (
        f"{'0' * 26}  shop.send_mail_to_all         3  ValueError: it could not be sent to anybody"
    )


def test_a_narrow_table_cuts_the_last_first_and_leaves_out_what_matters_least() -> None:
    assert lines(jobs_listing(), 80)[-1] == (
        f"{'0' * 26}  shop.send_mail_to_all         3  ValueError: it cou…"
    )
    assert lines(jobs_listing(), 58)[-1] == f"{'0' * 26}  …d_mail_to_all  ValueError: i…"


def test_an_id_stays_whole_on_a_very_narrow_terminal() -> None:
    assert lines(jobs_listing(), 45)[-1].startswith(f"{'0' * 26}  …l_to_all")


def test_a_very_long_id_leaves_room_for_the_other_columns() -> None:
    listing = jobs_listing()
    listing.add("of-customer-" * 8 + "no-7", "shop.charge", "0", "due in 59 min")
    assert lines(listing, 80)[-2:] == [
        f"{'0' * 26}                        …d_mail_to_all  ValueError: i…",
        "…stomer-of-customer-of-customer-of-customer-no-7  shop.charge     due in 59 min",
    ]


def test_a_listing_gives_lines_of_one_width_for_a_screen() -> None:
    header, row = (line.plain for line in jobs_listing().lines(58))
    assert len(header) == len(row) == 58
    assert row == f"{'0' * 26}  …d_mail_to_all  ValueError: i…"


def test_a_name_keeps_its_end_also_with_characters_of_two_columns() -> None:
    listing = FittedTable(Column("task", keeps="end", least=6), Column("id"))
    listing.add("店.注文.確認", "0" * 10)
    assert lines(listing, 20)[-1] == f"…文.確認  {'0' * 10}"
    assert lines(listing, 18)[-1] == f"….確認  {'0' * 10}"


def test_a_column_keeps_its_least_before_others_are_left_out() -> None:
    def listing(least: int) -> FittedTable:
        listing = FittedTable(Column("when", keeps="start", least=least), Column("at", spare=1))
        listing.add("0 9 * * mon-fri Europe/London", "2026-03-01 10:00:00")
        return listing

    assert lines(listing(14), 40)[-1] == "0 9 * * mon-fri Eu…  2026-03-01 10:00:00"
    assert lines(listing(29), 40)[-1] == "0 9 * * mon-fri Europe/London"


def test_long_and_dangerous_texts_are_tamed() -> None:
    assert short("one\n two\t three", 8) == "one two…"
    assert printable("a\x1b[31mb\u202e\nc") == "a\\x1b[31mb\\u202e\nc"
    assert compact_json({"a": [1, None]}) == '{"a":[1,null]}'
    assert compact_json({(1, 2): object}) == """{"(1, 2)":"<class 'object'>"}"""
    assert compact_json("half a pair: \ud800") == r'''"'half a pair: \\ud800'"'''


def test_progress_is_told_in_lines_where_there_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with ProgressBar("replaying", 1000) as steps:
        steps.done(200)
        assert capsys.readouterr().err == ""
        monkeypatch.setattr(progress, "LINE_EVERY", 0)
        steps.done(200)
    assert capsys.readouterr().err == "replaying: 400 of 1,000\n"


def test_progress_is_a_bar_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sink = io.StringIO()
    monkeypatch.setattr(progress, "is_terminal", lambda stream: True)
    monkeypatch.setattr(progress, "console", lambda stderr: Console(file=sink, force_terminal=True, width=80))
    with ProgressBar("replaying", 1000) as steps:
        steps.done(400)
    assert "400/1000" in sink.getvalue()
    assert capsys.readouterr().err == ""
