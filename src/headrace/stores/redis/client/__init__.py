"""Implements a client of Redis and Valkey with hiredis: connections, Sentinel, Cluster.

A command that the server refuses is answered with a `ReplyError`."""

from hiredis import ReplyError

__all__ = ["ReplyError"]
