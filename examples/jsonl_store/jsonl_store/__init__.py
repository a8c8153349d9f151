"""A store for headrace on one file of JSON lines. `App(store=JsonlStore("jobs.jsonl"))`."""

from .store import JsonlStore

__all__ = ["JsonlStore"]
