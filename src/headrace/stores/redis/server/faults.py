"""Says what an error of the server means: a table maps its code to a course of action and a text for people.

No other module of this package looks at the text of an error. An error reply means that the request was
refused, so a caller may send it again. It is `doubtful` only when a script may have stopped half-way.
"""

from __future__ import annotations

import re
import ssl
from enum import StrEnum
from typing import Any

import msgspec

from headrace.core.errors import BackendUnavailable, ChangesRefused, HeadraceError, RequestRefused
from headrace.core.moving.seal import moved_to
from headrace.stores.redis.client import ReplyError
from headrace.stores.redis.client.address import HostPort


class Course(StrEnum):
    """What is done about an error."""

    HEAL = "heal"  # this package repairs it and sends the request again at once; the caller sees no error
    RETRY = "retry"  # it passes by itself; a caller that has time sends the request again
    RECONNECT = "reconnect"  # as RETRY, but a new connection may lead to a server that can do it
    TELL = "tell"  # a person must act first; the caller gets the error at once
    FATAL = "fatal"  # the URL or the rights are wrong; at the start that is a ConfigurationError


class ServerFault(msgspec.Struct, frozen=True):
    """`hangs_up`: the server closes the connection after the error. `doubtful`: a part may have been done."""

    course: Course
    what: str
    advice: str
    hangs_up: bool = False
    doubtful: bool = False


_WAIT = "headrace tries again"

#: Faults by the code that an error begins with, or by its first words when the code is a plain ERR.
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
    # A server that is cut off answers this. The others may have made another server the primary by now.
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
    # --- what a person must repair ---
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
    "STOREMOVED": ServerFault(Course.TELL, "holds nothing any more", "everything was moved to another store"),
    "CONFLICT": ServerFault(Course.TELL, "cannot take a page of another store", "it holds something else"),
    "WRONGTYPE": ServerFault(
        Course.TELL,
        "holds something else under one of our keys",
        "give headrace a namespace or a database of its own",
        doubtful=True,
    ),
    # --- wrong password or missing rights ---
    "NOAUTH": ServerFault(Course.FATAL, "wants a password", "put it into the URL: redis://:password@host"),
    "WRONGPASS": ServerFault(
        Course.FATAL, "refuses the user's name or password", "correct redis://user:password@host in the URL"
    ),
    "ERR invalid password": ServerFault(
        Course.FATAL, "refuses the password", "correct redis://:password@host in the URL"
    ),
    "ERR AUTH": ServerFault(Course.FATAL, "has no password set", "take the password out of the URL"),
    "NOPERM": ServerFault(
        Course.FATAL, "denies this user a right", "see docs/concepts/redis.md for the rights it needs"
    ),
    "DENIED": ServerFault(
        Course.FATAL,
        "is in protected mode and accepts no connection from another machine",
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

#: The fault for every error that is not listed.
UNFORESEEN = ServerFault(Course.TELL, "answers with an error", "please report this", doubtful=True)

#: Texts in a script's error when the user may not run one of its commands: Redis 6.2 and 7, Valkey.
_DENIED_IN_SCRIPT = ("The user executing the script can't", "ACL failure in script")

#: Errors that a cluster repairs by itself.
_PASSING = frozenset({"TRYAGAIN", "CLUSTERDOWN", "NOREPLICAS"})

#: Slots of a cluster.
_SLOTS = 16384

_REDIRECTION = re.compile(r"(MOVED|ASK) ([0-9]{1,5}) ([^ ]*):([0-9]{1,5})")

_TEXTS = tuple(key for key in FAULTS if " " in key)

#: Before Redis 7 a script's error has text in front of the code that made it fail.
_INSIDE = re.compile(
    r"(?<![A-Za-z])-?(" + "|".join(key for key in FAULTS if " " not in key) + r")(?![A-Za-z])"
)


class Redirection(msgspec.Struct, frozen=True):
    """The cluster node to ask instead. `asks`: only for this request, because the slot is moving there."""

    slot: int
    place: HostPort
    asks: bool


class OutOfMemory(ChangesRefused):
    """The server takes nothing new. A refused request has changed nothing."""


class CommandRefused(BackendUnavailable):
    """The URL or the user's rights are wrong: trying again does not help."""


class DamagedReply(RequestRefused):
    """Another program has overwritten keys of this stream. Other streams still work."""


def fault_of(error: ReplyError) -> ServerFault:
    return FAULTS.get(_code_of(str(error)), UNFORESEEN)


def error_of(reply: ReplyError, server: str, *, uncertain: bool = False) -> HeadraceError:
    """The error to raise for an error reply. `uncertain`: other commands of the request were carried out."""
    fault = fault_of(reply)
    if is_error(reply, "STOREMOVED"):
        return moved_to(str(reply).partition("STOREMOVED ")[2])
    return _kind_of(reply, fault)(
        f"{server} {fault.what} ({reply}): {fault.advice}",
        uncertain=uncertain or fault.doubtful,
        transient=fault.course in (Course.RETRY, Course.RECONNECT, Course.HEAL),
    )


def lost(message: str, *, uncertain: bool = False) -> BackendUnavailable:
    """The error for a lost connection. A new one may be possible in a moment."""
    return BackendUnavailable(message, uncertain=uncertain, transient=True)


def unreachable(error: OSError, server: str) -> BackendUnavailable:
    """The error for a connection that cannot be made, or that the TLS of the other side ended."""
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
    why = str(error) or "it does not answer"
    return lost(f"{server} cannot be reached ({why}): check that it runs and that the URL is right")


def with_advice_on_tls(error: BackendUnavailable) -> BackendUnavailable:
    """Add advice to the error of a TLS connection that ended before the first reply, for any reason."""
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


def conflict_in(reply: Any) -> str | None:
    """Why a page of another store cannot be imported; None: it can."""
    return str(reply).partition("CONFLICT ")[2] if is_error(reply, "CONFLICT") else None


def is_per_chunk(reply: Any) -> bool:
    """Whether the error refuses one chunk of a batch, while other chunks may be stored."""
    return is_out_of_memory(reply) or is_sealed(reply)


def is_denied(reply: Any) -> bool:
    """Whether the user lacks a right."""
    return is_error(reply, "NOPERM")


def is_damaged(reply: Any) -> bool:
    """Whether the keys of one stream are damaged: of a wrong type, or with data that no script can read."""
    return isinstance(reply, ReplyError) and _code_of(str(reply)) in ("WRONGTYPE", "")


def can_heal(reply: ReplyError) -> bool:
    """Whether the reader can repair the cause and go on."""
    return fault_of(reply).course is Course.HEAL


def leads_elsewhere(reply: ReplyError) -> bool:
    """Whether to make new connections before the next try."""
    return fault_of(reply).course is Course.RECONNECT


def passes_soon(reply: Any) -> bool:
    """Whether the cluster cannot serve the request now, but may in a moment."""
    return isinstance(reply, ReplyError) and _code_of(str(reply)) in _PASSING


def redirection_of(reply: Any, host_asked: str = "") -> Redirection | None:
    """Read `MOVED 3999 127.0.0.1:6381`, or ASK in the same form. A missing host means the host asked."""
    if not isinstance(reply, ReplyError):
        return None
    found = _REDIRECTION.fullmatch(str(reply))
    if found is None or int(found[2]) >= _SLOTS or not 0 < int(found[4]) < 65536:
        return None
    return Redirection(int(found[2]), (found[3] or host_asked, int(found[4])), found[1] == "ASK")


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
