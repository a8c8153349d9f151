"""What happens around an enqueue, and what a wrapper of sendings (`App.use_sending`) sees of calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

import msgspec
from msgspec import UNSET

from headrace.core.errors import ConfigurationError
from headrace.core.messages.sending import Sending, SendingWrapper
from headrace.jobs.handles.job import Job

from .options import AS_DECLARED
from .remote import RemoteCall
from .task import Call

R = TypeVar("R")

#: The kinds of calls. Other values are refused later.
_KINDS: Final = (Call, RemoteCall)

#: Awaited after jobs are stored, before their enqueue returns.
AfterStoring = Callable[[Sequence[Job[Any]]], Awaitable[None]]


class EnqueueHooks(msgspec.Struct):
    """What happens around every enqueue of an app. Most apps have no hooks, and no object for them."""

    sending: SendingWrapper | None = None  # for tracing
    after: AfterStoring | None = None  # for tests, which run the jobs there


def sending_of(calls: Sequence[Call[Any]]) -> Sending:
    """What is about to be sent. With several queues or tasks, the destination or name is empty."""
    for call in calls:
        if not isinstance(call, Call):
            raise not_a_call(call)
    headers = calls[0].options.headers
    return Sending(
        "job",
        destination=_only({_queue(call) for call in calls}),
        count=len(calls),
        name=_only({call.task.name for call in calls}),
        headers={} if headers is UNSET else headers,
    )


def transaction_of(calls: Sequence[Call[Any]]) -> object:
    """The transaction that all these calls belong to; UNSET: none."""
    with_options = [call for call in calls if type(call) in _KINDS and call.options is not AS_DECLARED]
    given = {id(call.options.transaction): call.options.transaction for call in with_options}
    if not given or (len(given) == 1 and id(UNSET) in given):
        return UNSET
    if len(given) > 1 or len(with_options) < len(calls):
        raise ConfigurationError("calls that are enqueued together belong to one transaction, or to none")
    return with_options[0].options.transaction


def within(call: Call[R], transaction: object) -> Call[R]:
    """The call with this transaction; None: the call as it is."""
    if transaction is None:
        return call
    if not isinstance(call, Call):
        raise not_a_call(call)
    return call.with_(transaction=transaction)


def carrying(call: Call[R], carried: dict[str, str]) -> Call[R]:
    """The call with these headers added to its own."""
    if not carried:
        return call
    given = call.options.headers
    return call.with_(headers=carried if given is UNSET else {**given, **carried})


def not_a_call(given: object) -> ConfigurationError:
    """The error for a value that is enqueued and is not a call."""
    return ConfigurationError(f"enqueue takes a call, such as task.call(1, 2), not {given!r}")


def _queue(call: Call[Any]) -> str:
    queue = call.options.queue
    return call.task.options.queue if queue is UNSET else queue


def _only(names: set[str]) -> str:
    return names.pop() if len(names) == 1 else ""
