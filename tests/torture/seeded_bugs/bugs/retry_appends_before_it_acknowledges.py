"""Retry appends before it acknowledges."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="stores/redis/lua/settle/run_again.lua",
    why=(
        "On a server without memory a retry is refused, and its job stays with its worker until the "
        "lease runs out."
    ),
    before="""
        take_out(lane, entry, returned == '2')
        local ttl = cancelled_for(id, flags)
        if ttl then
          finish_cancelled(id, flags, message, ttl)
          return true
        end
        if state ~= '' then
          put(message, 's', state)
        end
        put(message, 'o', get(message, 'o') or (lane .. entry))
        if constraints then
          put(message, 'g', constraints)
          enqueue(id, flags, message)
          return true
        elseif to == 'L' then
          enqueue(id, flags, message, returned ~= '0')
          return true
        end
        local due = clock() + delay
        park(id, flags, message, to, due)
        soonest = math.min(soonest or due, due)
        return true
    """,
    after="""
        local ttl = cancelled_for(id, flags)
        if ttl then
          take_out(lane, entry, returned == '2')
          finish_cancelled(id, flags, message, ttl)
          return true
        end
        if state ~= '' then
          put(message, 's', state)
        end
        put(message, 'o', get(message, 'o') or (lane .. entry))
        if constraints then
          put(message, 'g', constraints)
          enqueue(id, flags, message)
          take_out(lane, entry, returned == '2')
          return true
        elseif to == 'L' then
          enqueue(id, flags, message, returned ~= '0')
          take_out(lane, entry, returned == '2')
          return true
        end
        local due = clock() + delay
        park(id, flags, message, to, due)
        take_out(lane, entry, returned == '2')
        soonest = math.min(soonest or due, due)
        return true
    """,
    tests=(
        "tests/integration/redis/test_backend.py::test_out_of_memory_refuses_new_messages_but_lets_those_there_end[valkey-9.1]",
    ),
)
