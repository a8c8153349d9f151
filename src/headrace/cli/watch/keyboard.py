"""Keys out of the bytes that a terminal sends for them."""

from __future__ import annotations

import codecs
import re
from typing import Final

ESCAPE: Final = "\x1b"

#: Seconds after which an escape that nothing follows is the key of that name.
ALONE: Final = 0.05

#: What is sent after an escape for keys that have no character; terminals do not agree.
_NAMED: Final = {
    **dict.fromkeys(("[A", "OA"), "up"),
    **dict.fromkeys(("[B", "OB"), "down"),
    **dict.fromkeys(("[H", "OH", "[1~", "[7~"), "home"),
    **dict.fromkeys(("[F", "OF", "[4~", "[8~"), "end"),
    "[5~": "page up",
    "[6~": "page down",
}

_WHOLE: Final = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|O[ -~])")
_BEGUN: Final = re.compile(r"\x1b(\[[0-?]*[ -/]*|O)?")


class Keyboard:
    """Bytes come as they like, also in the middle of a key; keys go out whole."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    @property
    def waits(self) -> bool:
        """Whether an escape is in hand of which it is not known yet what it begins."""
        return bool(self._rest)

    def feed(self, data: bytes) -> list[str]:
        """The keys that are whole now; those that nobody knows are left out."""
        text, self._rest = self._rest + self._decoder.decode(data), ""
        keys: list[str] = []
        while text:
            key, text = self._taken(text)
            keys += [key] if key else []
        return keys

    def settle(self) -> list[str]:
        """Nothing has followed for a while: what is in hand was the escape key."""
        alone, self._rest = self._rest == ESCAPE, ""
        return ["escape"] if alone else []

    def _taken(self, text: str) -> tuple[str, str]:
        """The first key of a text, empty if there is none, and what comes after it."""
        if text[0] != ESCAPE:
            return ("enter" if text[0] in "\r\n" else text[0]), text[1:]
        if found := _WHOLE.match(text):
            return _NAMED.get(found[1], ""), text[found.end() :]
        if _BEGUN.fullmatch(text):
            self._rest = text
            return "", ""
        return "escape", text[1:]  # and another key: typed quickly, or with Alt held
