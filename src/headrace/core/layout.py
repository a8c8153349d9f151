"""The part of the contract by which a queue or topic is split: which parts a stream has.

**Parts.** A stream of which nothing is stored is whole. One that was split has parts, which are streams of
their own as far as a store is concerned (`emails#1.0` … `emails#1.7`), on any shard of a cluster. Everything
above the stores goes on to speak of `emails`; `backends/partitioned` stands in between and is the only one
that knows of parts.

**Generations.** To change the number of parts makes a new generation of them. Those of the generation before
are **sealed**: `append` to one raises `Moved`, and everything else goes on, so that what lies there is run,
listed, replayed and found, until it is empty. The whole stream itself is generation 0. It is never forgotten:
its schedules stay there, and `tick` appends there even when it is sealed.

**One step at a time.** `propose` stores the number that is wanted. From then on whoever meets the proposal
may finish it: `seal` each part of the current generation, then `adopt`. Nobody appends by the new layout
before everything of the old one is sealed, so no unique key, id or order is lost in between, whenever
anybody dies.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from .decoding import DECODE_ERRORS
from .errors import ConfigurationError
from .message import GROUP_MARK, Message, Stream
from .number import whole_number

#: Between the name of a stream and its part; no name may hold it.
PART_MARK: Final = "#"

#: More parts than this help nobody: each costs every worker a wait of its own. With 64 on a cluster a job
#: that is due starts 10 ms later than with 8, with 256 it would be 45 ms.
PARTS_MOST: Final = 64

#: Parts of all generations of a stream together: those from before are waited at as well until they are
#: forgotten, days later.
PARTS_KEPT_MOST: Final = 256


class Generation(msgspec.Struct, frozen=True, array_like=True):
    """So many parts, made by the same change. Number 0 is the whole stream itself, with one part.

    `sealed_us`: since when nothing is appended there any more; 0: it is the current one."""

    number: int
    parts: int
    sealed_us: int = 0


class Layout(msgspec.Struct, frozen=True, array_like=True):
    """The generations of a stream, the current one last, and the number of parts that was proposed for the
    next; 0: no change is under way."""

    generations: tuple[Generation, ...] = (Generation(0, 1),)
    proposed: int = 0

    @property
    def current(self) -> Generation:
        return self.generations[-1]

    @property
    def possible(self) -> bool:
        """Whether this can be a layout; anyone may have written another."""
        return len(self.generations) > 0 and all(
            each.number >= 0 and 0 < each.parts <= PARTS_MOST for each in self.generations
        )

    @property
    def whole(self) -> bool:
        """Whether the stream was never split."""
        return len(self.generations) == 1 and self.generations[0].number == 0

    def is_older_than(self, other: Layout) -> bool:
        """Whether the other comes after it. Two of the same age differ at most by what was forgotten."""
        return self._age < other._age

    @property
    def _age(self) -> tuple[int, bool]:
        return self.current.number, bool(self.proposed)

    def with_proposal(self, parts: int) -> Layout:
        """What `propose` makes of it."""
        if self.proposed or parts == self.current.parts:
            return self
        return Layout(self.generations, parts)

    @property
    def parts(self) -> int:
        """Of all generations together."""
        return sum(each.parts for each in self.generations)

    @property
    def next(self) -> Generation:
        """The generation that was proposed."""
        return Generation(self.current.number + 1, self.proposed)

    def with_adoption(self, now_us: int) -> Layout:
        """What `adopt` makes of it."""
        if not self.proposed:
            return self
        sealed = Generation(self.current.number, self.current.parts, now_us)
        return Layout((*self.generations[:-1], sealed, self.next))

    def without(self, number: int) -> Layout:
        """What `forget` makes of it."""
        kept = [
            each for each in self.generations if each.number != number or not each.sealed_us or not number
        ]
        return Layout(tuple(kept), self.proposed)


WHOLE: Final = Layout()

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Layout).decode


def encode_layout(layout: Layout) -> bytes:
    return _encode(layout)


def decode_layout(content: bytes | None) -> Layout:
    """As it was stored; nothing stored is whole. What cannot be read is as good as lost: whoever knows the
    layout stores it again (`restore`)."""
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
    """The stream that it is a part of, or itself."""
    if PART_MARK not in part.name:
        return part
    name, mark, group = part.name.partition(GROUP_MARK)
    return Stream(part.kind, f"{name.partition(PART_MARK)[0]}{mark}{group}")


def generation_of(part: Stream) -> int:
    """The number of the generation that it belongs to; 0: it is the whole stream."""
    _, _, place = part.name.partition(GROUP_MARK)[0].partition(PART_MARK)
    number = place.partition(".")[0]
    return int(number) if number.isdecimal() else 0


def checked_partitions(value: object) -> int:
    """A number of parts as users write it."""
    if isinstance(value, int) and value > PARTS_MOST:
        raise ConfigurationError(
            f"partitions must be {PARTS_MOST} at most, not {value}: every worker waits at each of them"
        )
    return whole_number("partitions", value, least=1, most=PARTS_MOST)


class Layouts(ABC):
    """The verbs of a store. Streams are queues and topics; the groups of a topic are split with it."""

    @abstractmethod
    async def layout(self, stream: Stream) -> Layout:
        """How the stream is laid out; `WHOLE` when nothing is stored."""

    @abstractmethod
    async def propose(self, stream: Stream, parts: int) -> Layout:
        """Store a proposal unless one stands already or it is the current number; answers what stands then.
        Announced as a `LayoutOrder`. Repeatable."""

    @abstractmethod
    async def seal(self, part: Stream) -> None:
        """Let nothing be appended to this part from now on: `append` raises `Moved`, except for a batch whose
        number it has taken already, which is answered as before. `tick` and `replay` go on. Repeatable."""

    @abstractmethod
    async def adopt(self, stream: Stream, expected: Layout) -> Layout:
        """Make the proposal the current generation, if the layout is still `expected`; answers what stands
        then. Announced as a `LayoutOrder`. Whoever calls this has sealed the generation before, and has given
        the new parts what belongs to the stream: its pause and, of a topic, its rules and groups."""

    @abstractmethod
    async def forget(self, stream: Stream, number: int) -> Layout:
        """Take a sealed generation other than 0 out of the layout; answers what stands then. Whoever calls
        this has seen that its parts are empty, and has removed their groups. Announced as a `LayoutOrder`."""

    @abstractmethod
    async def drop(self, part: Stream) -> None:
        """Take a part of a forgotten generation out of the store. Whoever calls this has seen that it is
        empty, and has given everybody the time to hear that it is not to be claimed from any more.
        Repeatable."""

    @abstractmethod
    async def restore(self, stream: Stream, layout: Layout) -> Layout:
        """Store a layout again that the store has lost (somebody emptied it, or a failover took it back),
        unless what stands there is as new; answers what stands then. Announced as a `LayoutOrder`."""

    @abstractmethod
    async def holders(self, stream: Stream, messages: Sequence[Message]) -> list[str | None]:
        """For each message the id that `append` would answer as its duplicate: its own when that is known, or
        that of the message which holds its unique key; None: nobody stands in its way. Changes nothing: an
        owner that has expired stands in nobody's way, and is ended when it is claimed."""

    @property
    def declared(self) -> Mapping[Stream, int]:
        """How many parts the code wants. A store by itself takes no note of it."""
        return {}

    def declare(self, stream: Stream, parts: int) -> None:  # noqa: B027
        """Say how many parts the code wants. It counts for a stream that nobody has used yet."""
