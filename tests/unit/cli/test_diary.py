"""The demo's diary, which several processes write while another reads."""

from __future__ import annotations

from pathlib import Path

from headrace.cli.demo.diary import Diary


def test_a_line_that_is_still_being_written_is_left_for_the_next_look(tmp_path: Path) -> None:
    path = tmp_path / "diary.jsonl"
    diary = Diary(path)
    assert diary.read("run") == []
    diary.write("run", number=1)
    diary.write("run", number=2)
    written = path.read_bytes()
    path.write_bytes(written[:-10])
    assert [line["number"] for line in diary.read("run")] == [1]
    path.write_bytes(written)
    assert [line["number"] for line in diary.read("run")] == [1, 2]
