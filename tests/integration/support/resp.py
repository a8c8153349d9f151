"""As much of the protocol of Redis as a proxy needs: where a request or reply ends, and a request's words."""

from __future__ import annotations


class Cutter:
    """Cuts a stream of bytes into whole requests or replies."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        data = self._rest + data
        whole: list[bytes] = []
        start = 0
        while (end := _end(data, start)) is not None:
            whole.append(data[start:end])
            start = end
        self._rest = data[start:]
        return whole


def words_of(request: bytes) -> list[bytes]:
    """The words of a request, which is an array of strings."""
    words: list[bytes] = []
    at = request.index(b"\r\n") + 2
    while at < len(request):
        head = request.index(b"\r\n", at)
        length = int(request[at + 1 : head])
        words.append(request[head + 2 : head + 2 + length])
        at = head + 2 + length + 2
    return words


def _end(data: bytes, start: int) -> int | None:
    """Where the value that begins at `start` ends; None: not all of it is there."""
    todo = 1
    while todo:
        head = data.find(b"\r\n", start)
        if head < 0:
            return None
        mark, text = data[start : start + 1], data[start + 1 : head]
        start = head + 2
        todo -= 1
        if mark == b"$" and int(text) >= 0:
            start += int(text) + 2
            if start > len(data):
                return None
        elif mark == b"*":
            todo += max(0, int(text))
    return start
