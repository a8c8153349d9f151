"""What a store owes to the groups of a topic, written from the contract's prose alone.

A store may draw events for a group before they are claimed. So the model does not say where each event is. It
says what each group must get, what it may get, and in which order.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from headrace.core.messages.message import Stream
from headrace.core.messages.outcome import Dead, Outcome, Released, Retry, Snoozed
from headrace.core.records.answers import ReplayAnswer
from headrace.core.records.record import JobStatus
from headrace.core.runtime.clock import SECOND
from headrace.core.store import CRASH_LIMIT
from headrace.core.topics.topic import Start
from headrace.testing.contract.machines.model import ModelClock, ModelMessage, StreamModel


class ModelPlace(Enum):
    """Where an event is, as far as its group is concerned."""

    OWED = "never handed out since the group's start"
    OPEN = "the same, but a reset has skipped it: the group gets it if the store had drawn it"
    RUNNING = "running"
    WAITING = "scheduled or retrying"
    AGAIN = "queued again, after a failure, a hand-back or a crash"
    REPLAYED = "queued again, after it was dead"
    DEAD = "dead"


#: Places in which an event holds its key.
HOLDING = (ModelPlace.RUNNING, ModelPlace.WAITING, ModelPlace.AGAIN)
QUEUED = (ModelPlace.OWED, ModelPlace.AGAIN, ModelPlace.REPLAYED)


@dataclass
class ModelEvent:
    """An event in the log."""

    number: int
    id: str
    key: str
    at: int


@dataclass
class ModelDelivery(ModelMessage):
    """An event that a group has or is to get. `again`: it is owed once more when it has ended, because an
    ordered group was reset meanwhile. `maybe`: perhaps it is."""

    event: ModelEvent
    place: ModelPlace = ModelPlace.OWED
    due: int = 0
    again: bool = False
    maybe: bool = False


class GroupModel(StreamModel[ModelDelivery]):
    def __init__(self, clock: ModelClock, *, ordered: bool) -> None:
        super().__init__(clock)
        self.ordered = ordered
        self.was_reset = False

    def owe(self, event: ModelEvent) -> None:
        known = self.messages.get(event.id)
        if known is None:
            self.messages[event.id] = ModelDelivery(event)
        elif known.place is ModelPlace.OPEN:
            known.place = ModelPlace.OWED

    def ids_in(self, *places: ModelPlace) -> list[str]:
        return [id for id, delivery in self.messages.items() if delivery.place in places]

    def dead_ids(self) -> list[str]:
        return self.ids_in(ModelPlace.DEAD)

    # --- out ---------------------------------------------------------------------------------------------

    def hand_out(self, id: str, number: int, worker: str) -> None:
        """A claim was made; it must have been possible."""
        assert id in self.messages, f"{id} is nothing that the group is to get"
        delivery = self.messages[id]
        assert delivery.place in (*QUEUED, ModelPlace.OPEN), f"{id} is {delivery.place.value}"
        self._check_order(delivery)
        delivery.place = ModelPlace.RUNNING
        super().hand_out(id, number, worker)

    def _check_order(self, delivery: ModelDelivery) -> None:
        key = delivery.event.key
        if not self.ordered or not key or delivery.place is ModelPlace.AGAIN:
            return
        others = [each for each in self._of_key(key) if each is not delivery]
        held = [each.event.id for each in others if each.place in HOLDING]
        assert held == [], f"{delivery.event.id} beside {held} of its key"
        if delivery.place is ModelPlace.OWED:
            earlier = [each for each in others if each.place is ModelPlace.OWED]
            assert all(each.event.number > delivery.event.number for each in earlier), "out of turn"

    def left(self) -> list[str]:
        """What a claim of which the limit was not reached should have handed out as well."""
        return [id for id in self.ids_in(*QUEUED) if not self._is_parked(self.messages[id])]

    def _is_parked(self, delivery: ModelDelivery) -> bool:
        key = delivery.event.key
        if not self.ordered or not key or delivery.place is ModelPlace.AGAIN:
            return False
        return any(each.place in HOLDING for each in self._of_key(key))

    def _of_key(self, key: str) -> list[ModelDelivery]:
        return [each for each in self.messages.values() if each.event.key == key]

    # --- back --------------------------------------------------------------------------------------------

    def can_succeed(self, message: ModelDelivery) -> bool:
        return message.place in (ModelPlace.RUNNING, ModelPlace.AGAIN, ModelPlace.REPLAYED)

    def apply(self, message: ModelDelivery, outcome: Outcome) -> None:
        message.holder = None
        match outcome:
            case Retry(state, delay_us) | Snoozed(state, delay_us) | Released(state, delay_us):
                message.place = ModelPlace.WAITING if delay_us else ModelPlace.AGAIN
                message.due, message.crashes = self.now + delay_us // SECOND, state.crashes
            case Dead():
                self._bury(message)
            case _:
                self._end(message)

    def _bury(self, delivery: ModelDelivery) -> None:
        """A dead letter is passed over, but it may be none any more when it is met."""
        delivery.place = ModelPlace.DEAD
        delivery.again, delivery.maybe = False, delivery.again or delivery.maybe

    def _end(self, delivery: ModelDelivery) -> None:
        del self.messages[delivery.event.id]
        if delivery.again or delivery.maybe:
            place = ModelPlace.OWED if delivery.again else ModelPlace.OPEN
            self.messages[delivery.event.id] = ModelDelivery(delivery.event, place)

    def recover(self, id: str) -> tuple[int, JobStatus]:
        delivery = self.messages[id]
        delivery.holder = None
        delivery.crashes += 1
        if delivery.crashes >= CRASH_LIMIT:
            self._bury(delivery)
            return delivery.crashes, JobStatus.DEAD
        delivery.place = ModelPlace.AGAIN
        return delivery.crashes, JobStatus.QUEUED

    def promote(self) -> int:
        waiting = [self.messages[id] for id in self.ids_in(ModelPlace.WAITING)]
        due = [delivery for delivery in waiting if delivery.due <= self.now]
        for delivery in due:
            delivery.place = ModelPlace.AGAIN
        return len(due)

    def replay(self, id: str) -> ReplayAnswer:
        if id not in self.dead_ids():
            return ReplayAnswer.GONE
        self.messages[id].place, self.messages[id].crashes = ModelPlace.REPLAYED, 0
        return ReplayAnswer.REPLAYED

    def discard(self, id: str) -> int:
        if id not in self.dead_ids():
            return 0
        self._end(self.messages[id])
        return 1

    def reset(self, events: list[ModelEvent]) -> None:
        """From now on these are owed; what was owed and is not among them may have been drawn before. In an
        ordered group what is in progress is owed again when its turn comes."""
        self.was_reset = True
        for id in self.ids_in(ModelPlace.OWED):
            self.messages[id].place = ModelPlace.OPEN
        for delivery in self.messages.values():
            delivery.again, delivery.maybe = False, delivery.again or delivery.maybe
        for event in events:
            self.owe(event)
            delivery = self.messages[event.id]
            if self.ordered and event.key and delivery.place in (*HOLDING, ModelPlace.REPLAYED):
                delivery.again = True


class TopicModel:
    def __init__(self, clock: ModelClock) -> None:
        self._clock = clock
        self.events: list[ModelEvent] = []
        self.first = 1  # as the store says
        self.max_length: int | None = None
        self.max_age: int | None = None
        # When it is due, its id and key. The first appended is the first.
        self.scheduled: list[tuple[int, str, str]] = []
        self.groups: dict[Stream, GroupModel] = {}

    @property
    def now(self) -> int:
        return self._clock.now

    def publish(self, id: str, key: str, delay: int = 0) -> None:
        if delay:
            self.scheduled.append((self.now + delay, id, key))
            return
        event = ModelEvent(len(self.events) + 1, id, key, self.now)
        self.events.append(event)
        for group in self.groups.values():
            group.owe(event)

    def promote(self) -> int:
        due = sorted((each for each in self.scheduled if each[0] <= self.now), key=lambda each: each[0])
        self.scheduled = [each for each in self.scheduled if each[0] > self.now]
        for _, id, key in due:
            self.publish(id, key)
        return len(due)

    def waits(self) -> bool:
        """Whether anything waits for its time."""
        waiting = [group.ids_in(ModelPlace.WAITING) for group in self.groups.values()]
        return bool(self.scheduled) or any(waiting)

    def there(self) -> list[ModelEvent]:
        return self.events[self.first - 1 :]

    def since(self, start: Start) -> list[ModelEvent]:
        match start.at:
            case "new":
                return []
            case "beginning":
                return self.there()
            case "event":
                return [event for event in self.there() if event.number >= self._number(start.event)]
            case "time":
                raise NotImplementedError

    def may_go(self) -> int:
        """The number up to which events may have gone."""
        old = [e.number for e in self.events if self.max_age is not None and self.now - e.at > self.max_age]
        far = len(self.events) - self.max_length if self.max_length is not None else 0
        return max([*old, far, self.first - 1])

    def _number(self, id: str) -> int:
        (number,) = [event.number for event in self.events if event.id == id]
        return number
