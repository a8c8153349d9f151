"""Translates the errors of PostgreSQL and of its client for the caller: one table, from the SQLSTATE to a
text that says what to do."""

from __future__ import annotations

import msgspec
import psycopg
from psycopg import errors

from headrace.core.errors import BackendUnavailable, ChangesRefused, RequestRefused, StoreMoved
from headrace.core.moving.seal import moved_to


class PostgresFault(msgspec.Struct, frozen=True):
    """`transient`: the fault may pass without help in a moment. `raised`: the class of the error."""

    what: str
    advice: str
    transient: bool = False
    raised: type[BackendUnavailable] = BackendUnavailable


#: By SQLSTATE; or by its first two characters, the class.
FAULTS: dict[str, PostgresFault] = {
    "25006": PostgresFault(
        "is read-only", "connect to the primary (target_session_attrs=read-write)", transient=True
    ),
    "25P03": PostgresFault(
        "closed a session that was idle in a transaction",
        "raise idle_in_transaction_session_timeout",
        transient=True,
    ),
    "40001": PostgresFault("could not put transactions in an order", "try again", transient=True),
    "40P01": PostgresFault("found a deadlock", "try again", transient=True),
    "42501": PostgresFault(
        "refuses this role", "give it the grants that `headrace doctor` prints", transient=False
    ),
    "42P01": PostgresFault("has lost a table", "run `headrace schema apply URL`"),
    "42883": PostgresFault("has lost a function", "run `headrace schema apply URL`"),
    "3F000": PostgresFault("has lost its schema", "run `headrace schema apply URL`"),
    "53100": PostgresFault("has no room on its disk", "make room; nothing was lost", raised=ChangesRefused),
    "53200": PostgresFault("is short of memory", "look at the server's log", transient=True),
    "53300": PostgresFault(
        "has no connection left",
        "raise max_connections, or put a pooler in front of the server",
        transient=True,
    ),
    "53": PostgresFault("is short of a resource", "look at the server's log", transient=True),
    "54": PostgresFault("has a limit that the request exceeds", "send less", raised=RequestRefused),
    "55P03": PostgresFault("has a lock that another session holds", "try again", transient=True),
    "57014": PostgresFault(
        "cancelled a statement that took too long",
        "look for a session that keeps a transaction open, or raise statement_timeout",
        transient=True,
    ),
    "57": PostgresFault("is starting, stopping or closed the session", "try again", transient=True),
    "08": PostgresFault("cannot be reached", "check that it runs and that the URL is right", transient=True),
    "28": PostgresFault("refuses the login", "check user and password, and pg_hba.conf"),
    "3D": PostgresFault("has no such database", "create it, or name another in the URL"),
    "HR001": PostgresFault(
        "has taken a later batch of the same producer", "this one was overtaken and is not stored"
    ),
    "22": PostgresFault("cannot store a value", "send another value", raised=RequestRefused),
    "58": PostgresFault("met an error of its system", "look at the server's log"),
    "XX": PostgresFault("met an internal error", "look at the server's log"),
}

#: A login that fails has no SQLSTATE, only a text.
IN_TEXT: dict[str, str] = {
    "too many connections": "53300",
    "too many clients": "53300",
    "remaining connection slots": "53300",
    "password authentication": "28",
    "no password supplied": "28",
    "does not exist": "3D",
    "starting up": "57",
    "shutting down": "57",
    "is not read-write": "25006",
    "session is read-only": "25006",
}

UNREACHABLE = FAULTS["08"]
NO_PASSWORD = PostgresFault("cannot be asked without a password", "make the function answer", transient=True)
MALFORMED_PASSWORD = PostgresFault("cannot be asked without a password", "change the function")
REFUSED_PASSWORD = PostgresFault(
    "refuses the login that credentials= gave", "look at what the function returns", transient=True
)
UNFORESEEN = PostgresFault("refused a statement", "please report this", raised=RequestRefused)


class LoginFault(psycopg.OperationalError):
    """A connection was not made because of what `credentials=` gave, or did not give."""

    def __init__(self, text: str, fault: PostgresFault) -> None:
        super().__init__(text)
        self.fault = fault


#: The server refuses a prepared statement whose columns a migration has changed.
STALE_STATEMENT = errors.FeatureNotSupported

#: After these the same step may simply be run again: the server rolled it back.
REPEATABLE = (errors.SerializationFailure, errors.DeadlockDetected, STALE_STATEMENT)


def is_lost(error: psycopg.Error) -> bool:
    """Whether the connection broke, so that the answer of what was sent is not known."""
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return error.sqlstate[:2] == "08" or error.sqlstate in ("57P01", "57P02")


def fault_of(error: psycopg.Error) -> PostgresFault:
    code = error.sqlstate
    if code is None:
        return _without_code(error)
    return FAULTS.get(code) or FAULTS.get(code[:2]) or UNFORESEEN


def _without_code(error: psycopg.Error) -> PostgresFault:
    if isinstance(error, LoginFault):
        return error.fault
    if isinstance(error, psycopg.OperationalError):
        text = str(error)
        return next((FAULTS[code] for part, code in IN_TEXT.items() if part in text), UNREACHABLE)
    if isinstance(error, psycopg.DataError):
        return FAULTS["22"]
    return UNREACHABLE if isinstance(error, psycopg.InterfaceError) else UNFORESEEN


def is_login_refused(error: psycopg.Error) -> bool:
    return fault_of(error) is FAULTS["28"]


#: Raised by `open_stream`, with the name of the store to which everything was moved.
MOVED = "HR002"


def unavailable(
    description: str, error: psycopg.Error, *, uncertain: bool = False
) -> BackendUnavailable | StoreMoved:
    """The error for the caller."""
    if error.sqlstate == MOVED:
        return moved_to(error.diag.message_primary or "")
    fault = fault_of(error)
    text = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return fault.raised(
        f"the store {description} {fault.what} ({text}): {fault.advice}",
        uncertain=uncertain,
        transient=fault.transient,
    )
