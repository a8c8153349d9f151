"""Turns batches into script calls of a bounded size, and replies into answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from headrace.core.errors import Moved
from headrace.core.messages.message import NORMAL, PRODUCER_TTL_US, Batch, Message, are_alike
from headrace.core.records.answers import Answer
from headrace.core.schedules.schedule_record import NOW, ScheduleRecord, ScheduleSwap
from headrace.stores.redis.client import ReplyError
from headrace.stores.redis.client.connection import Word, pack
from headrace.stores.redis.entries import stored_constraints
from headrace.stores.redis.keys import NORMAL_LANE
from headrace.stores.redis.scripts import (
    APPEND,
    APPEND_LIMITED,
    APPEND_ONE,
    APPEND_REPLACING,
    APPEND_UNIQUE,
    PUBLISH,
    SWAP_SCHEDULES,
)
from headrace.stores.redis.server.faults import is_sealed
from headrace.stores.redis.stream_scripts import ScriptCall, StreamScripts

#: What one script may hold: messages, and bytes of bodies (or a single message).
ITEMS, BYTES = 500, 1 << 20

#: Milliseconds for which the answers to a producer's last batch are remembered.
REMEMBERED = PRODUCER_TTL_US // 1000
BRIEFLY = 1_000

_UNLIMITED = -1
_SHAPE = 4  # the word that says what the messages are

#: Largest body in bytes that `append_one` takes. `append` must note larger ones
#: (lua/shared/messages/queueing.lua).
SMALL = 4096

#: The answer of `append_one` when it has stored the message.
TAKEN = 1
#: The words that differ in each call (number, task, id and body), and the length of their prefix when packed
#: alone.
_WORDS_OF_ONE = 4
_COUNT_OF_ONE = len(b"*%d\r\n" % _WORDS_OF_ONE)

#: The number of a batch. Scripts compare it as text.
_NUMBER = b"%016d"

_KINDS = {"finished": "f", "started": "s", "elapsed": "e"}
_VERDICTS: dict[bytes, Literal["duplicate", "replaced", "full"]] = {
    b"d": "duplicate",
    b"r": "replaced",
    b"f": "full",
}


def call_of_one(queue: StreamScripts, batch: Batch) -> bytes | None:
    """The packed call of `append_one`, a faster script for a single plain message; None: the batch is not of
    this kind. If the answer is not `TAKEN`, the server did nothing: make the calls of the batch instead."""
    if len(batch.messages) > 1 or batch.limit is not None or queue.stream.kind != "queue":
        return None
    message = batch.messages[0]
    if not (message.fresh and len(message.body) <= SMALL and _is_plain(message)):
        return None
    if queue.offset_us():  # a test has moved the clock, which `append_one` does not support
        return None
    producer, head = queue.head_of_one
    if producer != batch.producer:
        head = _head_of_one(queue, batch.producer)
        queue.head_of_one = (batch.producer, head)
    words = (_NUMBER % batch.number + b" ", message.task, message.id, message.body)
    return head + pack(words)[_COUNT_OF_ONE:]


def _head_of_one(queue: StreamScripts, producer: str) -> bytes:
    """The part of the call that is the same each time."""
    keys = queue.keys
    of_producer = keys.producers + f"{producer}/0".encode()
    named = (keys.lanes[NORMAL_LANE - 1], keys.ids, of_producer, keys.producers)
    head = pack((b"EVALSHA", APPEND_ONE.digest, len(named), *named, REMEMBERED, *[b""] * _WORDS_OF_ONE))
    return head.removesuffix(b"$0\r\n\r\n" * _WORDS_OF_ONE)


def calls_of(queue: StreamScripts, batch: Batch) -> list[ScriptCall]:
    """One call, or several for a large batch. The server remembers each chunk and recognises a repeat."""
    return [_call(queue, batch, number, chunk) for number, chunk in enumerate(_chunks(batch.messages))]


def swap_call(queue: StreamScripts, swaps: Sequence[ScheduleSwap]) -> ScriptCall:
    """The call that replaces records of schedules. A swap with messages has a call of its own. The record
    itself refuses a repeat, so the answers are remembered only briefly."""
    words: list[Word] = []
    for swap in swaps:
        if swap.messages:
            words = _words(_batch_of(swap), 0, list(swap.messages), BRIEFLY)
        words += (swap.name, int(swap.announce), *_record_words(swap.expected), *_record_words(swap.new))
    return queue.call(SWAP_SCHEDULES, *words, len(swaps))


def _batch_of(swap: ScheduleSwap) -> Batch:
    step = [str(record.last_us) for record in (swap.expected, swap.new) if record is not None]
    return Batch(swap.stream, f"schedule:{swap.name}:{':'.join(step)}", 1, list(swap.messages))


def _record_words(record: ScheduleRecord | None) -> tuple[Word, ...]:
    """The words of a record, as the header of the script describes them."""
    if record is None:
        return ("",) * 5
    last: Word = "now" if record.last_us == NOW else record.last_us
    timing = record.timing.encode(errors="surrogateescape")
    return last, record.fired_us or "", "1" if record.paused else "", record.definition or "", timing


def _publish_words(messages: list[Message], limit: int | None) -> list[Word]:
    """The words of the events, as the header of the script describes them."""
    words: list[Word] = []
    if limit is None and are_alike(messages):
        words += ("f", messages[0].task)
        for message in messages:
            words += (message.id, message.body)
        return words
    words.append("a" if limit is None else f"a{limit}")
    for message in messages:
        words += (message.id, message.task, message.body, message.key, _event_options(message))
    return words


def _event_options(message: Message) -> str:
    """Empty for an event that is written at once, without a lifetime or a unique key."""
    unique = message.unique
    if not (message.delay_us or message.due_us or message.lifetime_us or unique):
        return ""
    times = f"{max(0, message.delay_us)} {max(0, message.due_us)} {message.lifetime_us}"
    return f"{times} {unique.window_us} {unique.key}" if unique else f"{times} "


def answers_of(batch: Batch, replies: Sequence[Any]) -> list[Answer]:
    answers = [Answer(message.id) for message in batch.messages]
    moved: list[int] = []
    for reply, span in zip(replies, _spans(batch), strict=True):
        if is_sealed(reply):
            moved += span
            continue
        if isinstance(reply, ReplyError):  # the server has no memory for this chunk, and stored nothing of it
            for index in span:
                answers[index] = Answer(batch.messages[index].id, "full", str(reply))
            continue
        for index, verdict, id in zip(reply[::3], reply[1::3], reply[2::3], strict=True):
            answers[span[index]] = Answer(id.decode(), _VERDICTS[verdict])
    if moved:
        raise Moved(f"{batch.stream.name} is sealed", answers=_without(answers, moved))
    return answers


def _without(answers: list[Answer], moved: list[int]) -> list[Answer | None]:
    gone = set(moved)
    return [None if index in gone else answer for index, answer in enumerate(answers)]


def _call(queue: StreamScripts, batch: Batch, number: int, messages: list[Message]) -> ScriptCall:
    if queue.stream.kind == "topic":
        head = (f"{batch.producer}/{number}", _NUMBER % batch.number, REMEMBERED)
        return queue.call(PUBLISH, *head, *_publish_words(messages, batch.limit))
    words = _words(batch, number, messages, REMEMBERED)
    script = APPEND
    if words[_SHAPE] == "0":
        if any(message.on_duplicate == "replace" for message in messages):
            script = APPEND_REPLACING
        elif any(message.key or message.constraints is not None for message in messages):
            script = APPEND_LIMITED
        elif any(message.unique for message in messages):
            script = APPEND_UNIQUE
    return queue.call(script, *words)


def _words(batch: Batch, number: int, messages: list[Message], remembered: int) -> list[Word]:
    limit = _UNLIMITED if batch.limit is None else batch.limit
    words: list[Word] = [f"{batch.producer}/{number}", _NUMBER % batch.number, remembered, limit]
    if limit == _UNLIMITED and _is_plain(messages[0]) and are_alike(messages):
        words += ("f", messages[0].task)
        for message in messages:
            words += (message.id, message.body)
        return words
    simple = len({message.id for message in messages}) == len(messages) and all(map(_is_plain, messages))
    words.append("1" if simple else "0")
    for message in messages:
        words += (message.id, message.task, message.body, _options(message))
    return words


def _is_plain(message: Message) -> bool:
    """Whether the message has no options."""
    return message.priority == NORMAL and not message.child and message.plain


def _options(message: Message) -> Word:
    """Empty for a plain message; otherwise as the header of the script describes it."""
    if _is_plain(message):
        return ""
    unique = message.unique
    kind, key, window = (_KINDS[unique.until], unique.key, unique.window_us) if unique else ("-", "", 0)
    if message.on_duplicate == "replace":
        kind = "r" if message.fresh else "R"
    times = f"{max(0, message.delay_us)} {max(0, message.due_us)} {message.lifetime_us}"
    head = f"{message.priority} {int(message.child)} {times} {kind} {window} {message.expired_ttl_us}"
    if message.constraints is None and not message.key:
        return f"{head} - - {key}"
    order = message.key.encode()
    constraints = stored_constraints(message.constraints) if message.constraints is not None else b""
    lengths = f" {len(order) if order else '-'} {len(constraints)} "
    return head.encode() + lengths.encode() + order + constraints + key.encode()


def _chunks(messages: list[Message]) -> Iterator[list[Message]]:
    if len(messages) <= ITEMS and sum(len(message.body) for message in messages) <= BYTES:
        yield messages
        return
    chunk: list[Message] = []
    size = 0
    for message in messages:
        if chunk and (len(chunk) == ITEMS or size + len(message.body) > BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(message)
        size += len(message.body)
    if chunk:
        yield chunk


def _spans(batch: Batch) -> Iterator[range]:
    """The indices of each chunk's messages."""
    first = 0
    for chunk in _chunks(batch.messages):
        yield range(first, first + len(chunk))
        first += len(chunk)
