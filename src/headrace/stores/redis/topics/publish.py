"""Turns batches for a topic into arguments of the script that publishes them."""

from __future__ import annotations

from headrace.core.messages.message import Message, are_alike
from headrace.stores.redis.client.connection import Word


def publish_words(messages: list[Message]) -> list[Word]:
    """The words of the events, as the header of the script describes them."""
    words: list[Word] = []
    if are_alike(messages):
        words += ("f", messages[0].task)
        for message in messages:
            words += (message.id, message.body)
        return words
    words.append("a")
    for message in messages:
        words += (message.id, message.task, message.body, message.key, _options(message))
    return words


def _options(message: Message) -> str:
    """Empty for an event that is written at once, without a lifetime or a unique key."""
    unique = message.unique
    if not (message.delay_us or message.due_us or message.lifetime_us or unique):
        return ""
    times = f"{max(0, message.delay_us)} {max(0, message.due_us)} {message.lifetime_us}"
    return f"{times} {unique.window_us} {unique.key}" if unique else f"{times} "
