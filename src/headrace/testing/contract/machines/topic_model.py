"""What a store owes to the groups of a topic, written from the contract's prose alone.

A store may draw events for a group before they are claimed. So the model does not say what lies where, but
what each group must get, what it may get, and in which order. Time is counted in whole seconds, all of them
multiples of ten, so that nothing comes near a boundary by accident.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from headrace.core.messages.outcome import Dead, Done, Outcome, Released, Retry, Snoozed, Verdict
from headrace.core.records.answers import ReplayAnswer
from headrace.core.store import CRASH_LIMIT
from headrace.core.topics.topic import Start


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
    """As it lies in the log."""

    number: int
    id: str
    key: str
    at: int


@dataclass
class ModelDelivery:
    """An event that a group has or is to get. `hand_outs` numbers the claims that were made of it. `again`:
    it is owed once more when it has ended, since an ordered group was reset meanwhile; `maybe`: perhaps."""

    event: ModelEvent
    place: ModelPlace = ModelPlace.OWED
    holder: int | None = None
    hand_outs: set[int] = field(default_factory=set)
    crashes: int = 0
    due: int = 0
    again: bool = False
    maybe: bool = False


class GroupModel:
    def __init__(self, *, ordered: bool) -> None:
        self.ordered = ordered
        self.was_reset = False
        self.deliveries: dict[str, ModelDelivery] = {}

    def owe(self, event: ModelEvent) -> None:
        known = self.deliveries.get(event.id)
        if known is None:
            self.deliveries[event.id] = ModelDelivery(event)
        elif known.place is ModelPlace.OPEN:
            known.place = ModelPlace.OWED

    def ids(self, *places: ModelPlace) -> list[str]:
        return [id for id, delivery in self.deliveries.items() if delivery.place in places]

    def holds(self, id: str, number: int) -> bool:
        return id in self.deliveries and self.deliveries[id].holder == number

    # --- out ---------------------------------------------------------------------------------------------

    def hand_out(self, id: str, number: int) -> None:
        """A claim was made; it must have been possible."""
        assert id in self.deliveries, f"{id} is nothing that the group is to get"
        delivery = self.deliveries[id]
        assert delivery.place in (*QUEUED, ModelPlace.OPEN), f"{id} is {delivery.place.value}"
        self._check_order(delivery)
        delivery.place, delivery.holder = ModelPlace.RUNNING, number
        delivery.hand_outs.add(number)

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
        return [id for id in self.ids(*QUEUED) if not self._is_parked(self.deliveries[id])]

    def _is_parked(self, delivery: ModelDelivery) -> bool:
        key = delivery.event.key
        if not self.ordered or not key or delivery.place is ModelPlace.AGAIN:
            return False
        return any(each.place in HOLDING for each in self._of_key(key))

    def _of_key(self, key: str) -> list[ModelDelivery]:
        return [each for each in self.deliveries.values() if each.event.key == key]

    # --- back --------------------------------------------------------------------------------------------

    def settle(self, id: str, number: int, outcome: Outcome, now: int) -> Verdict:
        delivery = self.deliveries.get(id)
        if isinstance(outcome, Done):
            settleable = (ModelPlace.RUNNING, ModelPlace.AGAIN, ModelPlace.REPLAYED)
            if delivery is None or number not in delivery.hand_outs or delivery.place not in settleable:
                return Verdict.GONE
            self._end(delivery)
            return Verdict.KEPT
        if delivery is None or delivery.holder != number:
            return Verdict.LOST
        delivery.holder = None
        if isinstance(outcome, Retry | Snoozed | Released):
            delay = outcome.delay_us // 1_000_000
            delivery.place, delivery.due = (ModelPlace.WAITING if delay else ModelPlace.AGAIN), now + delay
        elif isinstance(outcome, Dead):
            self._bury(delivery)
        else:
            self._end(delivery)
        return Verdict.KEPT

    def _bury(self, delivery: ModelDelivery) -> None:
        """A dead letter is passed over, but it may be none any more when it is met."""
        delivery.place = ModelPlace.DEAD
        delivery.again, delivery.maybe = False, delivery.again or delivery.maybe

    def _end(self, delivery: ModelDelivery) -> None:
        del self.deliveries[delivery.event.id]
        if delivery.again or delivery.maybe:
            place = ModelPlace.OWED if delivery.again else ModelPlace.OPEN
            self.deliveries[delivery.event.id] = ModelDelivery(delivery.event, place)

    def recover(self, id: str) -> None:
        delivery = self.deliveries[id]
        delivery.crashes += 1
        delivery.holder = None
        if delivery.crashes >= CRASH_LIMIT:
            self._bury(delivery)
        else:
            delivery.place = ModelPlace.AGAIN

    def promote(self, now: int) -> int:
        due = [
            each for each in self.deliveries.values() if each.place is ModelPlace.WAITING and each.due <= now
        ]
        for delivery in due:
            delivery.place = ModelPlace.AGAIN
        return len(due)

    def replay(self, id: str) -> ReplayAnswer:
        if id not in self.ids(ModelPlace.DEAD):
            return ReplayAnswer.GONE
        self.deliveries[id].place, self.deliveries[id].crashes = ModelPlace.REPLAYED, 0
        return ReplayAnswer.REPLAYED

    def discard(self, id: str) -> int:
        if id not in self.ids(ModelPlace.DEAD):
            return 0
        self._end(self.deliveries[id])
        return 1

    def reset(self, events: list[ModelEvent]) -> None:
        """From now on these are owed; what was owed and is not among them may have been drawn before. In an
        ordered group what is in progress is owed again when its turn comes."""
        self.was_reset = True
        for id in self.ids(ModelPlace.OWED):
            self.deliveries[id].place = ModelPlace.OPEN
        for delivery in self.deliveries.values():
            delivery.again, delivery.maybe = False, delivery.again or delivery.maybe
        for event in events:
            self.owe(event)
            delivery = self.deliveries[event.id]
            if self.ordered and event.key and delivery.place in (*HOLDING, ModelPlace.REPLAYED):
                delivery.again = True


class TopicModel:
    def __init__(self) -> None:
        self.now = 0
        self.events: list[ModelEvent] = []
        self.first = 1  # as the store says
        self.max_length: int | None = None
        self.max_age: int | None = None
        self.scheduled: list[
            tuple[int, str, str]
        ] = []  # when it is due, id and key; the first appended first
        self.groups: dict[str, GroupModel] = {}

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
