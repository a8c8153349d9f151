from __future__ import annotations

import pytest

from headrace.cli.watch.terminal import Keyboard


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"q", ["q"]),
        (b"jjp", ["j", "j", "p"]),
        (b"\x1b[A\x1b[B", ["up", "down"]),
        (b"\x1bOA\x1bOB", ["up", "down"]),
        (b"\x1b[H\x1b[4~\x1b[5~\x1b[6~", ["home", "end", "page up", "page down"]),
        (b"\r\n", ["enter", "enter"]),
        (b"\x1bq", ["escape", "q"]),
        ("é".encode(), ["é"]),
        (b"\x1b[1;5Cp", ["p"]),  # Ctrl and an arrow: not a known key
        (b"\x1b[200~r\x1b[201~", ["r"]),
    ],
)
def test_bytes_are_keys(data: bytes, keys: list[str]) -> None:
    keyboard = Keyboard()
    assert keyboard.feed(data) == keys
    assert not keyboard.rest


@pytest.mark.parametrize("data", [b"\x1b[A", b"\x1bOA", b"\x1b[5~", "ä".encode()])
def test_a_key_may_come_byte_by_byte(data: bytes) -> None:
    keyboard, whole = Keyboard(), Keyboard()
    keys = [key for place in range(len(data)) for key in keyboard.feed(data[place : place + 1])]
    assert keys == whole.feed(data)
    assert len(keys) == 1


def test_an_escape_that_nothing_follows_is_the_key_of_that_name() -> None:
    keyboard = Keyboard()
    assert keyboard.feed(b"\x1b") == []
    assert keyboard.rest
    assert keyboard.flush() == ["escape"]
    assert not keyboard.rest
    assert keyboard.flush() == []


def test_half_a_sequence_is_no_key() -> None:
    keyboard = Keyboard()
    assert keyboard.feed(b"\x1b[5") == []
    assert keyboard.flush() == []
    assert keyboard.feed(b"p") == ["p"]
