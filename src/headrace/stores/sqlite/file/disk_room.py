"""Watches the free space on the disk of a database. New messages leave some space free, so that stored ones
can still run. Workers keep a reserve, in case another program takes that space."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import apsw

from headrace.stores.sqlite.connection.connection import Connection

from .reserved_room import ReservedRoom

#: Bytes of a disk that new messages leave free, or a quarter of a small disk, in addition to the size of the
#: write-ahead log. Stored messages are settled with these: a settlement needs room before it frees any.
LEAST: Final = 4 * 1024 * 1024

#: A disk with this many free bytes needs no further check.
PLENTY: Final = 16 * LEAST

#: Bytes of the reserve, or an eighth of a small disk: twice what the log holds when it is copied into the
#: file, because the file may have to grow by as much.
RESERVE: Final = 8 * 1024 * 1024

#: Milliseconds that emptying the log may take on a full disk.
EMPTYING_TIMEOUT: Final = 200


class DiskRoom:
    """Only the thread that uses the connection may use this."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._path = connection.path
        self._reserve = ReservedRoom(connection.path)
        self._holds = False  # whether it holds the whole reserve

    def is_plentiful(self) -> bool:
        return _free(self._path)[0] >= PLENTY

    def takes(self, size: int) -> bool:
        """Whether the disk has room for new messages of `size` bytes. Empties the log of a nearly full disk
        while there is still room for its content."""
        free, least = _free(self._path)
        if free >= PLENTY:
            return True
        # Messages are written twice, into the log and then into the file, and their indices with them.
        needed = least + 4 * size
        if free < needed + 2 * self._logged:
            self._connection.empty_log(EMPTYING_TIMEOUT)
            free, least = _free(self._path)
        if free >= needed + self._logged:
            return True
        return free >= least // 2 + 2 * size + self._logged and free + self._spare >= needed + self._logged

    def save_log(self) -> None:
        """When little room is left, copy the log into the file while that is still possible. The log keeps
        its own room for the next transactions."""
        free, least = _free(self._path)
        if free < PLENTY and free < least // 2 + 2 * self._connection.logged:
            self._connection.empty_log(EMPTYING_TIMEOUT, cut=False)

    def make(self, *, of_reserve: bool) -> bool:
        """Copy the write-ahead log into the file; returns whether that worked. With `of_reserve` the log
        keeps its room: the program that has filled the disk would take any room that becomes free."""
        if of_reserve:
            self._reserve.release()
            self._holds = False
        return self._connection.empty_log(EMPTYING_TIMEOUT, cut=not of_reserve)

    def hold(self) -> None:
        """Take the reserve, if the disk has room for it."""
        if self._holds:
            return
        free, least = _free(self._path)
        size = _reserve_size(least)
        self._holds = free >= least + size and self._reserve.hold(size)

    def hold_rest(self) -> None:
        """Take back as much of the reserve as the disk still has."""
        free, least = _free(self._path)
        self._reserve.hold(min(free, _reserve_size(least)))

    @property
    def _spare(self) -> int:
        """Bytes of the file's free pages. What fits there needs new room only in the log."""
        try:
            pages: int = self._connection.value("PRAGMA freelist_count")
            size: int = self._connection.value("PRAGMA page_size")
        except apsw.Error:
            return 0
        return pages * size

    @property
    def _logged(self) -> int:
        """Bytes of the write-ahead log."""
        try:
            return os.stat(f"{self._path}-wal").st_size
        except OSError:
            return 0


def _free(path: Path) -> tuple[int, int]:
    """The free bytes of the disk, and how many of them must stay free."""
    try:
        found = os.statvfs(path)
    except (AttributeError, OSError):  # no such call here, or the file is gone: others report that
        return PLENTY, 0
    return found.f_bavail * found.f_frsize, min(LEAST, found.f_blocks * found.f_frsize // 4)


def _reserve_size(least: int) -> int:
    """Half of what new messages leave free on a small disk: half of a quarter is an eighth."""
    return RESERVE if least == LEAST else least // 2
