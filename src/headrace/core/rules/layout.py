"""The part of the contract by which a stream is split into parts.

**Parts.** A stream without a stored layout is whole. A stream that was split has parts. For a store, each
part is a stream like any other (`emails#1.0` … `emails#1.7`), on any shard of a cluster. The engine and the
admin verbs name `emails`. The router (`engine/streams`) is between them and the store: it alone knows parts.

**A store keeps one value for each stream**: its layout. `layout` reads it, and `swap_layout` replaces it when
it is still the expected one. The store understands two things of it. A stream whose own layout is `sealed`
takes nothing new. And the layout of a topic is decided before the topic is used, or never.

**Queues** may be split while they are in use. Each change makes a new generation of parts. The parts of the
generation before are sealed: what is there is run, listed, replayed and found, until they are empty. The
queue itself is generation 0. It is never forgotten: its schedules stay there, and fire into it even when
it is sealed. First the number that is wanted is stored as a proposal. From then on any process that
finds the proposal may finish it: seal each part of the current generation, then adopt the next one. No
process appends by the new layout before every part of the old one is sealed. So no unique key, id or order is
lost in between, whichever process dies.

**Topics** have one generation of parts, from their first use on.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from headrace.core.encoding.decoding import DECODE_ERRORS
from headrace.core.errors import ConfigurationError
from headrace.core.messages.message import GROUP_MARK, Stream
from headrace.core.values.bounds import Count, MomentUs
from headrace.core.values.whole_numbers import whole_number

#: Between the name of a stream and its part; no name may hold it.
PART_MARK: Final = "#"

#: More parts than this do not help: every worker waits at each part. With 64 on a cluster a job that is due
#: starts 10 ms later than with 8; with 256 it would be 45 ms.
PARTS_MOST: Final = 64

#: The most parts of all generations of a stream together: workers also wait at the parts of older generations
#: until these are forgotten, days later.
PARTS_KEPT_MOST: Final = 256


class Generation(msgspec.Struct, frozen=True, array_like=True):
    """The parts that one change has made. Number 0 is the whole stream itself, with one part.

    `sealed_us`: since when nothing is appended to these parts; 0: it is the current generation."""

    number: Count
    parts: Annotated[int, msgspec.Meta(ge=1, le=PARTS_MOST)]
    sealed_us: MomentUs = 0


class Layout(msgspec.Struct, frozen=True, array_like=True):
    """The generations of a stream, the current one last. `proposed` is the number of parts of the next one;
    0: no change is under way. `sealed`: nothing is appended any more to the stream that has this layout."""

    generations: tuple[Generation, ...] = (Generation(0, 1),)
    proposed: Annotated[int, msgspec.Meta(ge=0, le=PARTS_MOST)] = 0
    sealed: bool = False

    @property
    def current(self) -> Generation:
        return self.generations[-1]

    @property
    def possible(self) -> bool:
        """Whether this is a valid layout; other programs may have written anything."""
        return len(self.generations) > 0 and all(
            each.number >= 0 and 0 < each.parts <= PARTS_MOST for each in self.generations
        )

    @property
    def whole(self) -> bool:
        """Whether the stream was never split."""
        return len(self.generations) == 1 and self.generations[0].number == 0

    @property
    def shape(self) -> tuple[tuple[int, int], ...]:
        """The number and the parts of each generation, without times."""
        return tuple((each.number, each.parts) for each in self.generations)

    def is_older_than(self, other: Layout) -> bool:
        """Whether the other layout is newer. Two of the same age differ only in forgotten generations, or in
        the seal."""
        return self._age < other._age

    @property
    def _age(self) -> tuple[int, bool]:
        return self.current.number, bool(self.proposed)

    @property
    def parts(self) -> int:
        """The number of parts of all generations together."""
        return sum(each.parts for each in self.generations)

    @property
    def next(self) -> Generation:
        """The generation that was proposed."""
        return Generation(self.current.number + 1, self.proposed)

    def with_proposal(self, parts: int) -> Layout:
        """The layout with a proposal of `parts` parts, unless a change is under way or there are as many."""
        if self.proposed or parts == self.current.parts:
            return self
        return msgspec.structs.replace(self, proposed=parts)

    def with_adoption(self, now_us: int) -> Layout:
        """The layout with the proposed generation as the current one."""
        if not self.proposed:
            return self
        before = Generation(self.current.number, self.current.parts, now_us)
        return Layout((*self.generations[:-1], before, self.next), sealed=True)

    def without(self, number: int) -> Layout:
        """The layout without a sealed generation. The current one and the stream itself stay."""
        kept = [
            each for each in self.generations if each.number != number or not each.sealed_us or not number
        ]
        return msgspec.structs.replace(self, generations=tuple(kept))


WHOLE: Final = Layout()

#: The layout of a part that takes nothing new.
SEALED: Final = Layout(sealed=True)


def layout_of_topic(parts: int) -> Layout:
    """The layout of a topic with `parts` parts. Nothing is appended to the stream of its own name."""
    return Layout((Generation(1, parts),), sealed=True)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Layout).decode


def encode_layout(layout: Layout) -> bytes:
    return _encode(layout)


def decode_layout(content: bytes | None) -> Layout:
    """The stored layout; `WHOLE` when none is stored. A layout that cannot be read counts as lost: a process
    that knows the layout stores it again (`restore`)."""
    try:
        layout = _decode(content) if content else WHOLE
    except DECODE_ERRORS:
        return WHOLE
    return layout if layout.possible else WHOLE


def part_stream(stream: Stream, number: int, index: int) -> Stream:
    """The part of a queue, a topic or a group that has this index in the generation of this number."""
    if not number:
        return stream
    name, mark, group = stream.name.partition(GROUP_MARK)
    return Stream(stream.kind, f"{name}{PART_MARK}{number}.{index}{mark}{group}")


def parts_of(stream: Stream, generation: Generation) -> list[Stream]:
    """All parts of a generation."""
    return [part_stream(stream, generation.number, index) for index in range(generation.parts)]


def whole_stream(part: Stream) -> Stream:
    """The stream that this is a part of, or the stream itself."""
    if PART_MARK not in part.name:
        return part
    name, mark, group = part.name.partition(GROUP_MARK)
    return Stream(part.kind, f"{name.partition(PART_MARK)[0]}{mark}{group}")


def generation_of(part: Stream) -> int:
    """The number of the generation that a part belongs to; 0: it is the whole stream."""
    _, _, place = part.name.partition(GROUP_MARK)[0].partition(PART_MARK)
    number = place.partition(".")[0]
    return int(number) if number.isdecimal() else 0


def checked_partitions(value: object) -> int:
    """A number of parts that a user wrote, if it is allowed."""
    if isinstance(value, int) and value > PARTS_MOST:
        raise ConfigurationError(
            f"partitions must be {PARTS_MOST} at most, not {value}: every worker waits at each of them"
        )
    return whole_number("partitions", value, least=1, most=PARTS_MOST)
