"""A large batch of which a part was taken before the queue was sealed."""

from __future__ import annotations

import pytest
from hiredis import ReplyError

from headrace.core.errors import Moved
from headrace.core.messages.message import Batch, Message, Stream
from headrace.core.records.answers import Answer
from headrace.stores.redis.verbs.append import ITEMS, answers_of


def test_only_what_was_not_taken_has_moved() -> None:
    messages = [Message(f"id-{number}", "greet", b"") for number in range(ITEMS + 2)]
    batch = Batch(Stream("queue", "work"), "producer", 1, messages)
    replies = [[3, b"d", b"other"], ReplyError("SEALED this part takes no more")]
    with pytest.raises(Moved) as caught:
        answers_of(batch, replies)
    answers = caught.value.answers
    assert answers[3] == Answer("other", "duplicate")
    assert answers[ITEMS - 1] == Answer(f"id-{ITEMS - 1}")
    assert answers[ITEMS:] == [None, None]
