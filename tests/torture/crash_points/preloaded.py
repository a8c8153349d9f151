"""What every process of a round needs, imported before it is forked."""

from headrace.stores.memory import store as memory
from headrace.stores.redis import store as redis
from headrace.stores.sqlite import store as sqlite
from tests.torture import campaign, fleet

from . import process

__all__ = ["campaign", "fleet", "memory", "process", "redis", "sqlite"]
