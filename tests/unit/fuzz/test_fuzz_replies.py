"""Whatever a server answers is classified: a value, an error of ours, or the end of the connection."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import apsw
import pytest
from hiredis import ReplyError
from hypothesis import strategies as st

from headrace import BackendUnavailable, HeadraceError
from headrace.stores.redis.client.address import Address
from headrace.stores.redis.client.connection import Wire
from headrace.stores.redis.client.handshake import check_handshake
from headrace.stores.redis.server import faults
from headrace.stores.sqlite import faults as sqlite_faults

from .strategies import bounded, fuzz

_words = st.sampled_from(
    [
        *faults.FAULTS,
        "MOVED",
        "ASK",
        "1",
        "99999999999999999999",
        "h:1",
        ":6379",
        "x",
        "-1",
        "ERR",
        "user_script",
    ]
)
_redirections = st.builds(
    "{} {} {}".format,
    st.sampled_from(["MOVED", "ASK"]),
    st.text(max_size=6) | st.integers().map(str),
    st.text(max_size=9) | st.integers().map(":{}".format),
)
_texts = (
    _redirections | st.lists(_words | st.text(max_size=8), max_size=6).map(" ".join) | st.text(max_size=60)
)


def an_error_reply_is_classified(text: str) -> None:
    reply = ReplyError(text)
    with bounded():
        error = faults.error_of(reply, "the server")
        assert isinstance(error, HeadraceError)
        for asks in (
            faults.can_heal,
            faults.leads_elsewhere,
            faults.passes_soon,
            faults.hangs_up,
            faults.is_denied,
            faults.is_damaged,
            faults.is_sealed,
            faults.is_per_chunk,
        ):
            assert isinstance(asks(reply), bool)
        found = faults.redirection_of(reply, "here")
        assert found is None or 0 < found.place[1] < 65536


test_errors, test_errors_at_length = fuzz(an_error_reply_is_classified, text=_texts)

#: Every error that apsw has.
_ERRORS = sorted(
    (each for each in vars(apsw).values() if isinstance(each, type) and issubclass(each, apsw.Error)), key=str
)


def an_error_of_sqlite_is_classified(kind: type[apsw.Error], text: str) -> None:
    error = sqlite_faults.unavailable(Path("jobs.db"), kind(text))
    assert isinstance(error, BackendUnavailable)


test_sqlite_errors, test_sqlite_errors_at_length = fuzz(
    an_error_of_sqlite_is_classified, kind=st.sampled_from(_ERRORS), text=st.text(max_size=30)
)

#: Replies in the form of the protocol, more or less.
_resp = st.one_of(
    st.binary(max_size=60),
    st.sampled_from(
        [
            b"*0\r\n",
            b"*-1\r\n",
            b"$-1\r\n",
            b"+OK\r\n",
            b":1\r\n",
            b"-ERR x\r\n",
            b"-MOVED x y\r\n",
            b"*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nb\r\n",
            b"*1\r\n$7\r\nmessage\r\n",
            b"*1\r\n*0\r\n",
            b"$2147483647\r\n",
            b"$536870913\r\n",
            b"%1\r\n+a\r\n+b\r\n",
            b"_\r\n",
            b"*1\r\n" * 50,
            b":99999999999999999999\r\n",
        ]
    ),
)


class _Transport(asyncio.Transport):
    """A connection that goes nowhere."""

    def write(self, data: Any) -> None: ...
    def abort(self) -> None: ...

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return None


def bytes_of_a_server_end_a_request_or_the_connection(data: list[bytes], listens: bool) -> None:
    """Nothing is raised into the event loop."""

    async def receive() -> None:
        heard: list[Any] = []
        wire = Wire(Address(), "the server", heard.append if listens else None)
        wire.connection_made(_Transport())
        requests = [wire.send(b"x", count) for count in (1, 2, 1)]
        for each in data:
            if not wire.closed:
                wire.data_received(each)
        wire.close()
        for request in requests:
            assert request.done()
            error = request.exception()
            assert error is None or isinstance(error, HeadraceError)

    with bounded():
        asyncio.run(receive())


test_bytes, test_bytes_at_length = fuzz(
    bytes_of_a_server_end_a_request_or_the_connection,
    data=st.lists(_resp, max_size=8),
    listens=st.booleans(),
)

_replies = st.recursive(
    st.one_of(st.none(), st.integers(), st.binary(max_size=8), st.sampled_from([b"master", b"slave", b"OK"]))
    | _texts.map(ReplyError),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=8,
)


def a_handshake_is_accepted_or_refused(replies: list[Any], asks_anew: bool) -> None:
    try:
        check_handshake(replies, "the server", asks_anew=asks_anew)
    except HeadraceError:
        pass


test_handshakes, test_handshakes_at_length = fuzz(
    a_handshake_is_accepted_or_refused,
    replies=st.lists(_replies, min_size=2, max_size=5),
    asks_anew=st.booleans(),
)


def test_odd_replies_that_were_found_once() -> None:
    for text in ("MOVED x h:1", "ASK 1 h:x", "MOVED 99999 h:1", "MOVED 1 h:70000"):
        assert faults.redirection_of(ReplyError(text)) is None
    moved = faults.redirection_of(ReplyError("MOVED 3999 ::1:6381"))
    assert moved == faults.Redirection(3999, ("::1", 6381), asks=False)
    for reply in ([], [None], [b"slave"]):
        with pytest.raises(BackendUnavailable, match="not where the sentinels say"):
            check_handshake([b"OK", reply], "the server", asks_anew=False)
    bytes_of_a_server_end_a_request_or_the_connection([b"*0\r\n"], listens=True)
