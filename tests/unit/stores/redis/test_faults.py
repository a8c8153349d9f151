"""The table of a server's errors: texts as real servers write them."""

from __future__ import annotations

import ssl

import pytest
from hiredis import ReplyError

from headrace.core.errors import BackendUnavailable
from headrace.stores.redis.server.faults import (
    FAULTS,
    CommandRefused,
    Course,
    OutOfMemory,
    can_heal,
    error_of,
    fault_of,
    hangs_up,
    is_denied,
    leads_elsewhere,
    unreachable,
)

#: Redis 6.2 puts words of its own before the code that made a script fail.
IN_SCRIPT = "ERR Error running script (call to f_1b2c): @user_script:12: "

TEXTS = {
    "NOSCRIPT No matching script. Please use EVAL.": Course.HEAL,
    "NOGROUP No such key 'k' or consumer group 'headrace' in XREADGROUP with GROUP option": Course.HEAL,
    "UNBLOCKED the stream key no longer exists": Course.HEAL,
    "LOADING Redis is loading the dataset in memory": Course.RECONNECT,
    "READONLY You can't write against a read only replica.": Course.RECONNECT,
    f"{IN_SCRIPT}@user_script: 12: -READONLY You can't write against a read only replica.": Course.RECONNECT,
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.": Course.RECONNECT,
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.": Course.RETRY,
    "CLUSTERDOWN The cluster is down": Course.RECONNECT,
    "TRYAGAIN Multiple keys request during rehashing of slot": Course.RETRY,
    "EXECABORT Transaction discarded because of previous errors.": Course.RETRY,
    "ERR max number of clients reached": Course.RETRY,
    "OOM command not allowed when used memory > 'maxmemory'.": Course.TELL,
    f"{IN_SCRIPT}-OOM command not allowed when used memory > 'maxmemory'.": Course.TELL,
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to": Course.TELL,
    "NOREPLICAS Not enough good replicas to write.": Course.RECONNECT,
    "WRONGTYPE Operation against a key holding the wrong kind of value": Course.TELL,
    f"{IN_SCRIPT}WRONGTYPE Operation against a key holding the wrong kind of value": Course.TELL,
    "NOAUTH Authentication required.": Course.FATAL,
    "WRONGPASS invalid username-password pair or user is disabled.": Course.FATAL,
    "ERR AUTH <password> called without any password configured for the default user.": Course.FATAL,
    "NOPERM this user has no permissions to run the 'xadd' command": Course.FATAL,
    "ERR The user executing the script can't run this command or subcommand": Course.FATAL,
    "ERR ACL failure in script: No permissions to access a key": Course.FATAL,
    "DENIED Redis is running in protected mode because protected mode is enabled": Course.FATAL,
    "ERR DB index is out of range": Course.FATAL,
    "MOVED 3999 127.0.0.1:6381": Course.FATAL,
    "ERR something new": Course.TELL,
}


@pytest.mark.parametrize("text", TEXTS)
def test_each_error_has_one_course(text: str) -> None:
    reply, course = ReplyError(text), TEXTS[text]
    assert fault_of(reply).course is course
    assert can_heal(reply) is (course is Course.HEAL)
    assert leads_elsewhere(reply) is (course is Course.RECONNECT)
    error = error_of(reply, "the server at h:1")
    assert isinstance(error, BackendUnavailable)
    assert error.transient is (course in (Course.HEAL, Course.RETRY, Course.RECONNECT))
    assert isinstance(error, CommandRefused) is (course is Course.FATAL)
    assert isinstance(error, OutOfMemory) is ("OOM" in text)
    assert text in str(error)


def test_a_request_is_uncertain_when_a_part_of_it_may_have_been_done() -> None:
    assert not uncertain("READONLY You can't write against a read only replica.")
    assert uncertain("READONLY You can't write against a read only replica.", others=True)
    assert uncertain("WRONGTYPE Operation against a key holding the wrong kind of value")
    assert uncertain("ERR something new")


def uncertain(text: str, *, others: bool = False) -> bool:
    error = error_of(ReplyError(text), "it", uncertain=others)
    assert isinstance(error, BackendUnavailable)
    return error.uncertain


def test_every_error_says_what_it_means_and_what_to_do() -> None:
    for fault in FAULTS.values():
        assert fault.what
        assert fault.advice


def test_some_servers_hang_up_behind_their_error() -> None:
    assert hangs_up(ReplyError("ERR max number of clients reached"))
    assert hangs_up(ReplyError("DENIED Redis is running in protected mode"))
    assert not hangs_up(ReplyError("OOM"))
    assert not hangs_up(b"OK")


def test_only_an_error_can_be_a_denial() -> None:
    assert is_denied(ReplyError("NOPERM No permissions to access a key"))
    assert not is_denied(b"NOPERM")


def test_an_error_of_tls_is_a_mistake_of_the_url_and_a_lost_way_is_not() -> None:
    assert isinstance(unreachable(ssl.SSLError(1, "no"), "it"), CommandRefused)
    lost = unreachable(TimeoutError(), "it")
    why = "it cannot be reached (it does not answer): check that it runs and that the URL is right"
    assert (str(lost), lost.transient) == (why, True)
