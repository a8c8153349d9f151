"""Which sentinel is asked first."""

from __future__ import annotations

from headrace.stores.redis.client.address import parse_address
from headrace.stores.redis.client.sentinels import SentinelClient


def test_their_order_is_never_changed_under_whoever_reads_it() -> None:
    """Leases are renewed in a thread of their own, which asks the same sentinels. A list is empty for other
    threads while it is sorted."""
    sentinels = SentinelClient(parse_address("redis+sentinel://one,two,three/jobs"), lambda place: None)
    read = sentinels._places
    one, two, three = before = tuple(read)
    sentinels._found(three, [b"127.0.0.1", b"6379"])
    assert sentinels._places == [three, one, two]
    sentinels.doubt()
    assert sentinels._places == [one, two, three]
    assert tuple(read) == before
