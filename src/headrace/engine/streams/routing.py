"""Decides to which part a message belongs, and which parts a stream has."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import msgspec

from headrace.core.messages.message import Message, Stream
from headrace.core.rules.layout import Generation, Layout, part_stream, parts_of


def hash_of(text: str) -> int:
    """A hash that must never change, in any process: stored messages are in the part that it selected."""
    return crc32(text.encode())


def routed_by(message: Message) -> str:
    """The text that selects the part: an event's key, so that its order holds within a part; then the unique
    key; else the id."""
    return message.key or (message.unique.key if message.unique else message.id)


def part_in(stream: Stream, generation: Generation, text: str) -> Stream:
    """The part of this generation that the text selects."""
    return part_stream(stream, generation.number, hash_of(text) % generation.parts)


class Plan(msgspec.Struct, frozen=True):
    """The parts of a queue, a topic or a group under a layout; the oldest generation first.

    `parts` holds the parts of all generations. For a queue the first is the queue itself, for schedules.
    """

    stream: Stream
    layout: Layout
    parts: tuple[Stream, ...]

    @property
    def current(self) -> list[Stream]:
        return parts_of(self.stream, self.layout.current)

    def likely(self, id: str) -> Stream:
        """The part of a message with this id, unless it has a key or is older than the last change."""
        return part_in(self.stream, self.layout.current, id)

    def others(self, id: str) -> list[Stream]:
        likely = self.likely(id)
        return [part for part in self.parts if part != likely]


def plan_of(stream: Stream, layout: Layout) -> Plan:
    generations = layout.generations
    parts = [part for generation in generations for part in parts_of(stream, generation)]
    # A queue keeps its schedules, even if its generation is missing. A topic has only its parts.
    whole = [] if parts[0] == stream or stream.kind != "queue" else [stream]
    return Plan(stream, layout, (*whole, *parts))


def sealed_parts(stream: Stream, layout: Layout) -> list[Stream]:
    """The parts of all generations but the current one."""
    return [part for generation in layout.generations[:-1] for part in parts_of(stream, generation)]


def spread(
    stream: Stream, generation: Generation, messages: Sequence[Message], indices: Sequence[int]
) -> dict[Stream, list[int]]:
    """The indices of messages, by the parts that they belong to."""
    if generation.parts == 1:
        return {part_stream(stream, generation.number, 0): list(indices)}
    by_index: list[list[int]] = [[] for _ in range(generation.parts)]
    for index in indices:
        by_index[hash_of(routed_by(messages[index])) % generation.parts].append(index)
    return {
        part_stream(stream, generation.number, number): some for number, some in enumerate(by_index) if some
    }
