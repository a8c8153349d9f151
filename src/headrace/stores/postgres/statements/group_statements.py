"""The statements about groups: their positions and their members."""

from __future__ import annotations

_GROUP = """
SELECT groups.stream, topic, position, removed, ordered, wanted_us, unwanted_us, keyed
FROM headrace.groups AS groups JOIN headrace.streams AS streams ON streams.stream = groups.stream
WHERE namespace = $1 AND kind = 'group' AND name = $2
"""

# namespace, name
FIND_GROUP = _GROUP
LOCK_GROUP = f"{_GROUP} FOR UPDATE OF groups"

# streams
LOCK_KEYED = """
SELECT stream FROM headrace.groups WHERE stream = ANY ($1::integer[]) AND keyed ORDER BY stream FOR UPDATE
"""

# stream, topic, position, now
WRITE_GROUP = """
INSERT INTO headrace.groups (stream, topic, position, seen_us) VALUES ($1, $2, $3, $4)
ON CONFLICT (stream) DO UPDATE SET
    topic = excluded.topic, position = excluded.position, seen_us = excluded.seen_us, ordered = false,
    wanted_us = 0, unwanted_us = 0, again = 0, removed = false
"""

# A member was seen. stream, ordered, wanted, unwanted, now
ORDER_GROUP = """
UPDATE headrace.groups SET
    ordered = $2, wanted_us = $3, unwanted_us = $4, seen_us = $5, keyed = keyed OR $2
WHERE stream = $1
"""

SEE_GROUP = "UPDATE headrace.groups SET seen_us = $2 WHERE stream = $1"

MOVE_GROUP = "UPDATE headrace.groups SET position = $2 WHERE stream = $1"

# Up to `again`, the group may find events that it has already drawn.
RESET_GROUP = "UPDATE headrace.groups SET position = $2, again = greatest(again, position) WHERE stream = $1"

MEET_NOTHING_AGAIN = "UPDATE headrace.groups SET again = 0 WHERE stream = $1"

# Messages with a key that were never claimed, after an event of the topic. group, topic, after
# → place, key, id
LOCK_UNTOUCHED = """
SELECT place, unique_key, message.id
FROM headrace.messages AS message
WHERE message.stream = $1 AND place IN (1, 5) AND worker IS NULL AND unique_key IS NOT NULL
    AND EXISTS (
        SELECT FROM headrace.events AS events
        WHERE events.stream + 0 = $2 AND events.id = message.id AND number > $3)
FOR UPDATE
"""

# stream, how many deferred keys are too many
IS_STALLED = """
SELECT last > position AND (
    SELECT count(*) FROM headrace.deferred_keys AS keys WHERE keys.stream = $1) >= $2
FROM headrace.groups AS groups JOIN headrace.topics AS topics ON topics.stream = topic
WHERE groups.stream = $1
"""

REMOVE_GROUP = "UPDATE headrace.groups SET removed = true WHERE stream = $1"

# Clears the lease and the pause, as in a new stream.
CLEAR_STREAM = """
UPDATE headrace.streams SET
    established = false, lease_us = NULL, longer_lease_us = 0, longer_until_us = 0, paused = false
WHERE stream = $1
"""

CLEAR_COUNTS = "DELETE FROM headrace.counts WHERE stream = $1"

# → id, whether a caller waits for it
FORGET_MESSAGES = "DELETE FROM headrace.messages WHERE stream = $1 RETURNING id, awaited"

FORGET_PROGRESS = "DELETE FROM headrace.progress WHERE stream = $1"

FORGET_KEYS = "DELETE FROM headrace.unique_keys WHERE stream = $1"

FORGET_DEFERRED = "DELETE FROM headrace.deferred_keys WHERE stream = $1"

# topic → stream, name, the number after which something may be left to draw, seen_us of each of its groups
LIST_GROUPS = """
SELECT groups.stream, name,
    least(position, (
        SELECT min(number) - 1 FROM headrace.deferred_keys AS keys WHERE keys.stream = groups.stream)),
    seen_us
FROM headrace.groups AS groups JOIN headrace.streams AS streams ON streams.stream = groups.stream
WHERE topic = $1 AND NOT removed
"""
