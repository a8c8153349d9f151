"""Turns exceptions into text of a bounded length, which is stored with the message."""

from __future__ import annotations

import traceback
from pathlib import Path
from types import TracebackType

from headrace.core.messages.outcome import Failure

#: Bytes kept of an error's message and of its traceback.
ERROR_LENGTH = 8 * 1024
TRACEBACK_LENGTH = 32 * 1024

#: Stands for what was cut off.
_ELLIPSIS = "…".encode()

#: The attribute that holds the original failure of an error from another process.
CARRIED = "_headrace_failure"

#: The folder of headrace: its frames before those of the handler say nothing to the user.
_PACKAGE = str(Path(__file__).parents[2])


def failure_of(error: BaseException) -> Failure:
    """The error's type, message and traceback, from the handler's own frames on.

    An error from a child process carries its own failure.
    """
    carried = getattr(error, CARRIED, None)
    if isinstance(carried, Failure):
        return carried
    frames = _from_handler(error.__traceback__)
    # Without frames it would only repeat the message.
    text = "" if frames is None else "".join(traceback.format_exception(type(error), error, frames))
    return Failure(
        error_type=storable(_type_name(error)),
        error=_cut(storable(_message(error))),
        traceback=_cut_front(storable(text)),
    )


def described(error: BaseException) -> str:
    """The error's type and message on one line."""
    return storable(f"{_type_name(error)}: {_message(error)}")


def storable(text: str) -> str:
    """`text` without characters that cannot be encoded, such as half a surrogate pair from a file name."""
    return text.encode(errors="backslashreplace").decode()


def _type_name(error: BaseException) -> str:
    kind = type(error)
    module = kind.__module__
    # Public errors of headrace have the module `headrace`. The modules of internal errors are left out.
    is_known_by_name = module == "builtins" or module.startswith("headrace.")
    return kind.__qualname__ if is_known_by_name else f"{module}.{kind.__qualname__}"


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as broken:
        return f"<its message could not be made: {type(broken).__name__}>"


def _cut(text: str) -> str:
    data = text.encode()
    if len(data) <= ERROR_LENGTH:
        return text
    return _whole_characters(data[: ERROR_LENGTH - len(_ELLIPSIS)] + _ELLIPSIS)


def _cut_front(text: str) -> str:
    # The end of a traceback says what happened. So the beginning is cut off.
    data = text.encode()
    if len(data) <= TRACEBACK_LENGTH:
        return text
    return _whole_characters(_ELLIPSIS + data[len(_ELLIPSIS) - TRACEBACK_LENGTH :])


def _whole_characters(data: bytes) -> str:
    # A cut may go through a character. What is left of it is dropped.
    return data.decode(errors="ignore")


def _from_handler(frames: TracebackType | None) -> TracebackType | None:
    first = frames
    while first is not None and first.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        first = first.tb_next
    return first if first is not None else frames
