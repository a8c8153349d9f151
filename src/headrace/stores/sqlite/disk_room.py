"""Room on the disk of a database: new messages leave some free, with which the stored ones can be run.
Workers keep a reserve for the case that another program takes it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import apsw

from headrace.stores.sqlite.connection.connection import Connection

from .reserved_room import ReservedRoom

#: Bytes of a disk that new messages leave free, or a quarter of a small disk, beside as much as the
#: write-ahead log holds: with these what is stored can be settled, which needs room before it gives any back.
LEAST: Final = 4 * 1024 * 1024

#: Bytes that are free on a disk about which nobody need care.
PLENTY: Final = 16 * LEAST

#: Bytes of the reserve, or an eighth of a small disk: twice what the log holds when it is copied into the
#: file, which may have to grow by as much.
RESERVE: Final = 8 * 1024 * 1024

#: Milliseconds for which the log is to be emptied on a full disk.
EMPTYING_TIMEOUT: Final = 200


class DiskRoom:
    """Used by the thread that uses the connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._path = connection.path
        self._reserve = ReservedRoom(connection.path)
        self._holds = False  # the whole reserve

    def is_plentiful(self) -> bool:
        return _free(self._path)[0] >= PLENTY

    def takes(self, size: int) -> bool:
        """Whether the disk can take messages of so many bytes more. When it is nearly full the log is emptied
        while there is still room for what is in it."""
        free, least = _free(self._path)
        if free >= PLENTY:
            return True
        # They are written twice, into the log and then into the file, and their indices with them.
        needed = least + 4 * size
        if free < needed + 2 * self._logged:
            self._connection.empty_log(EMPTYING_TIMEOUT)
            free, least = _free(self._path)
        if free >= needed + self._logged:
            return True
        return free >= least // 2 + 2 * size + self._logged and free + self._spare >= needed + self._logged

    def save_log(self) -> None:
        """Copy the log into the file while the disk has room for it, if there is little left. The log keeps
        its own room, in which the next transactions are written."""
        free, least = _free(self._path)
        if free < PLENTY and free < least // 2 + 2 * self._connection.logged:
            self._connection.empty_log(EMPTYING_TIMEOUT, cut=False)

    def make(self, *, of_reserve: bool) -> bool:
        """Copy the write-ahead log into the file. Its own room is kept for it when the reserve is used up:
        what was free would go to the program that has filled the disk. Answers whether that could be done."""
        if of_reserve:
            self._reserve.release()
            self._holds = False
        return self._connection.empty_log(EMPTYING_TIMEOUT, cut=not of_reserve)

    def hold(self) -> None:
        """Have a reserve, if the disk has room for it."""
        if self._holds:
            return
        free, least = _free(self._path)
        size = _reserve_size(least)
        self._holds = free >= least + size and self._reserve.hold(size)

    def hold_rest(self) -> None:
        """Take as much of the reserve back as is left."""
        free, least = _free(self._path)
        self._reserve.hold(min(free, _reserve_size(least)))

    @property
    def _spare(self) -> int:
        """Bytes of the file where messages were: what fits there needs new room in the log alone."""
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
    """Bytes that are free on its disk, and how many of them are to stay so."""
    try:
        found = os.statvfs(path)
    except (AttributeError, OSError):  # not everywhere; or the file is gone, which others will tell
        return PLENTY, 0
    return found.f_bavail * found.f_frsize, min(LEAST, found.f_blocks * found.f_frsize // 4)


def _reserve_size(least: int) -> int:
    """Goes with what new messages leave free: half of a quarter is an eighth."""
    return RESERVE if least == LEAST else least // 2
