"""What a server's error means to us: one table, from its code to a course of action and words for a person.

Nothing else in this package looks at the text of an error. An error reply means that the request was refused,
so a caller may send it again; only where a script may have stopped half-way is it `doubtful`.
"""

from __future__ import annotations

import re
import ssl
from enum import StrEnum
from typing import Any

import msgspec
from hiredis import ReplyError

from headrace.core.errors import BackendUnavailable, ChangesRefused, HeadraceError, RequestRefused
from headrace.stores.redis.client.address import Place


class Course(StrEnum):
    """What is done about it."""

    HEAL = "heal"  # mended here, and sent again at once: nobody hears of it
    RETRY = "retry"  # it passes by itself: whoever has time sends it again
    RECONNECT = "reconnect"  # the same, but another connection may lead to a server that can
    TELL = "tell"  # somebody must act first: the caller is told at once
    FATAL = "fatal"  # URL or rights are wrong: at the start that is a ConfigurationError


class ServerFault(msgspec.Struct, frozen=True):
    """`hangs_up`: the server closes the connection behind it. `doubtful`: a part may have been done."""

    course: Course
    what: str
    advice: str
    hangs_up: bool = False
    doubtful: bool = False


_WAIT = "headrace tries again"

#: By the code that an error begins with, or by the words where its code is a plain ERR.
FAULTS: dict[str, ServerFault] = {
    # --- what it has forgotten ---
    "NOSCRIPT": ServerFault(Course.HEAL, "does not know a script", "the script is loaded again"),
    "NOGROUP": ServerFault(Course.HEAL, "has lost a queue's group", "the group is made again"),
    "UNBLOCKED": ServerFault(Course.HEAL, "ended a read because something changed", "the read is made again"),
    # --- what passes ---
    "LOADING": ServerFault(Course.RECONNECT, "is still loading its data", _WAIT),
    "READONLY": ServerFault(
        Course.RECONNECT, "is a replica", "name the primary in the URL, or wait for a failover"
    ),
    "MASTERDOWN": ServerFault(
        Course.RECONNECT, "is a replica that has lost its primary", "look at the primary"
    ),
    # So speaks a server that is cut off from the others, which may have made another the primary by now.
    "CLUSTERDOWN": ServerFault(
        Course.RECONNECT, "belongs to a cluster that is down", "look at the cluster's nodes"
    ),
    "NOREPLICAS": ServerFault(
        Course.RECONNECT, "has fewer replicas than its min-replicas-to-write", "look at the replicas"
    ),
    "BUSY": ServerFault(
        Course.RETRY, "is kept busy by a script", "if it does not end by itself: SCRIPT KILL on the server"
    ),
    "TRYAGAIN": ServerFault(Course.RETRY, "is moving these keys to another node", _WAIT),
    "EXECABORT": ServerFault(Course.RETRY, "gave up a transaction before it began", _WAIT),
    "ERR max number of clients": ServerFault(
        Course.RETRY, "has no connection left for us", "raise its maxclients", hangs_up=True
    ),
    # --- what somebody must mend ---
    "OOM": ServerFault(
        Course.TELL,
        "is out of memory",
        "raise its maxmemory, or let workers catch up; jobs that are running can end",
    ),
    "MISCONF": ServerFault(
        Course.TELL,
        "cannot save to its disk and refuses changes",
        "make room on the disk and look at the server's log; nothing was lost",
    ),
    "STALE": ServerFault(
        Course.TELL,
        "has taken a later batch of the same producer",
        "this one was overtaken and is not stored",
    ),
    "SEALED": ServerFault(
        Course.TELL, "takes no more in this part of a stream", "its layout has changed, and is read anew"
    ),
    "WRONGTYPE": ServerFault(
        Course.TELL,
        "holds something else under one of our keys",
        "give headrace a namespace or a database of its own",
        doubtful=True,
    ),
    # --- who may not ---
    "NOAUTH": ServerFault(Course.FATAL, "wants a password", "put it into the URL: redis://:password@host"),
    "WRONGPASS": ServerFault(
        Course.FATAL, "refuses the user's name or password", "mend redis://user:password@host in the URL"
    ),
    "ERR invalid password": ServerFault(
        Course.FATAL, "refuses the password", "mend redis://:password@host in the URL"
    ),
    "ERR AUTH": ServerFault(Course.FATAL, "has no password set", "take the password out of the URL"),
    "NOPERM": ServerFault(
        Course.FATAL, "denies this user a right", "see docs/concepts/redis.md for the rights it needs"
    ),
    "DENIED": ServerFault(
        Course.FATAL,
        "is in protected mode and lets in nobody from outside",
        "set a password there, or protected-mode no",
        hangs_up=True,
    ),
    "ERR DB index is out of range": ServerFault(
        Course.FATAL, "has no such database", "take a smaller number in the URL"
    ),
    "ERR unknown command": ServerFault(
        Course.FATAL, "does not know a command", "headrace needs Redis 6.2 or Valkey with all commands"
    ),
    "MOVED": ServerFault(Course.FATAL, "is a node of a cluster", "write redis+cluster://host in the URL"),
    "CROSSSLOT": ServerFault(Course.FATAL, "is a node of a cluster", "write redis+cluster://host in the URL"),
    "ERR This instance has cluster support disabled": ServerFault(
        Course.FATAL, "is no node of a cluster", "write redis://host in the URL"
    ),
}

#: For everything that is not listed.
UNFORESEEN = ServerFault(Course.TELL, "answers with an error", "please report this", doubtful=True)

#: How a script's error begins when the user may not run a command of it: Redis 6.2 and 7, Valkey.
_DENIED_IN_SCRIPT = ("The user executing the script can't", "ACL failure in script")

#: What a cluster mends by itself.
_PASSING = frozenset({"TRYAGAIN", "CLUSTERDOWN", "NOREPLICAS"})

_TEXTS = tuple(key for key in FAULTS if " " in key)

#: Before Redis 7 a script's error has text in front of the code that made it fail.
_INSIDE = re.compile(
    r"(?<![A-Za-z])-?(" + "|".join(key for key in FAULTS if " " not in key) + r")(?![A-Za-z])"
)


class Redirection(msgspec.Struct, frozen=True):
    """Which node of a cluster to ask instead; `asks`: only this once, the slot is on its way there."""

    slot: int
    place: Place
    asks: bool


class OutOfMemory(ChangesRefused):
    """The server takes nothing new. Whatever was refused has changed nothing."""


class CommandRefused(BackendUnavailable):
    """A mistake in the URL or in the user's rights: trying again does not help."""


class DamagedReply(RequestRefused):
    """Somebody has written something else in the place of what this stream keeps: others are as they were."""


def fault_of(error: ReplyError) -> ServerFault:
    return FAULTS.get(_code_of(str(error)), UNFORESEEN)


def error_of(reply: ReplyError, server: str, *, uncertain: bool = False) -> HeadraceError:
    """The error to raise for an error reply; `uncertain`: others of the same request were carried out."""
    fault = fault_of(reply)
    return _kind_of(reply, fault)(
        f"{server} {fault.what} ({reply}): {fault.advice}",
        uncertain=uncertain or fault.doubtful,
        transient=fault.course in (Course.RETRY, Course.RECONNECT, Course.HEAL),
    )


def lost(message: str, *, uncertain: bool = False) -> BackendUnavailable:
    """A connection that is no more: another may be made in a moment."""
    return BackendUnavailable(message, uncertain=uncertain, transient=True)


def unreachable(error: OSError, server: str) -> BackendUnavailable:
    """The error for a connection that cannot be made, or was ended by the other side's TLS."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return CommandRefused(
            f"{server} shows a certificate that cannot be trusted ({error.verify_message}): name the"
            " authority that signed it with ?ssl_ca_certs=, and the host as the certificate does"
        )
    if isinstance(error, ssl.SSLError):
        why = getattr(error, "reason", None) or error
        return CommandRefused(
            f"{server} and this client do not agree on TLS ({why}): check that it speaks"
            " TLS there, and whether it wants a certificate (?ssl_certfile= and ?ssl_keyfile=)"
        )
    return lost(f"{server} cannot be reached: {str(error) or 'it does not answer'}")


def with_advice_on_tls(error: BackendUnavailable) -> BackendUnavailable:
    """The same for a connection with TLS that ended before anything was said, for whatever reason."""
    if error.transient:
        error.args = (
            f"{error}; check that it speaks TLS there, and whether it wants a certificate (?ssl_certfile=)",
        )
    return error


def is_error(reply: Any, code: str) -> bool:
    return isinstance(reply, ReplyError) and _code_of(str(reply)) == code


def is_out_of_memory(reply: Any) -> bool:
    return is_error(reply, "OOM")


def is_sealed(reply: Any) -> bool:
    return is_error(reply, "SEALED")


def is_per_chunk(reply: Any) -> bool:
    """Whether a part of a batch was refused by an error of which the others may know nothing."""
    return is_out_of_memory(reply) or is_sealed(reply)


def is_denied(reply: Any) -> bool:
    """Whether the user lacks a right."""
    return is_error(reply, "NOPERM")


def is_damaged(reply: Any) -> bool:
    """Whether it is about the keys of one stream: of a wrong type, or with what no script can read."""
    return isinstance(reply, ReplyError) and _code_of(str(reply)) in ("WRONGTYPE", "")


def can_heal(reply: ReplyError) -> bool:
    """Whether the one who reads can mend it and go on."""
    return fault_of(reply).course is Course.HEAL


def leads_elsewhere(reply: ReplyError) -> bool:
    """Whether connections should be made anew before the next try."""
    return fault_of(reply).course is Course.RECONNECT


def passes_soon(reply: Any) -> bool:
    """Whether a cluster cannot serve it at this moment, but may in the next."""
    return isinstance(reply, ReplyError) and _code_of(str(reply)) in _PASSING


def redirection_of(reply: Any, host_asked: str = "") -> Redirection | None:
    """`MOVED 3999 127.0.0.1:6381`, or ASK with the same words; without a host it is the one asked."""
    if not isinstance(reply, ReplyError):
        return None
    words = str(reply).split(" ")
    if words[0] not in ("MOVED", "ASK") or len(words) != 3:
        return None
    host, _, port = words[2].rpartition(":")
    return Redirection(int(words[1]), (host or host_asked, int(port)), words[0] == "ASK")


def hangs_up(reply: Any) -> bool:
    return isinstance(reply, ReplyError) and fault_of(reply).hangs_up


def _code_of(text: str) -> str:
    if any(phrase in text for phrase in _DENIED_IN_SCRIPT):
        return "NOPERM"
    code = text.partition(" ")[0]
    if code in FAULTS:
        return code
    inside = _INSIDE.search(text)
    if inside is not None and "script" in text:
        return inside[1]
    return next((known for known in _TEXTS if text.startswith(known)), "")


def _kind_of(reply: ReplyError, fault: ServerFault) -> type[BackendUnavailable]:
    if fault.course is Course.FATAL:
        return CommandRefused
    if is_damaged(reply):
        return DamagedReply
    if fault is UNFORESEEN:
        return RequestRefused
    if is_error(reply, "MISCONF"):
        return ChangesRefused
    return OutOfMemory if is_out_of_memory(reply) else BackendUnavailable
