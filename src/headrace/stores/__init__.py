"""Stores by the scheme of their URL, each imported when it is first asked for."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Protocol, cast
from weakref import WeakValueDictionary

from headrace.core.errors import ConfigurationError
from headrace.core.runtime.clock import SystemClock, TimeSource
from headrace.core.store import Store
from headrace.core.values.credentials import Credentials, checked_credentials

#: Where jobs are kept when nothing else is said: in the working directory, durable.
DEFAULT_URL = "sqlite:///headrace.db"

DEFAULT_NAMESPACE, DEFAULT_DURABILITY = "headrace", "default"

#: Scheme → module, and the extra that brings what the module needs.
SCHEMES = {
    "memory": ("headrace.stores.memory", None),
    "sqlite": ("headrace.stores.sqlite", None),
    "postgresql": ("headrace.stores.postgres", "postgres"),
    "postgres": ("headrace.stores.postgres", "postgres"),
    "redis": ("headrace.stores.redis", "redis"),
    "rediss": ("headrace.stores.redis", "redis"),
    "valkey": ("headrace.stores.redis", "redis"),
    "valkeys": ("headrace.stores.redis", "redis"),
    "unix": ("headrace.stores.redis", "redis"),
    "redis+sentinel": ("headrace.stores.redis", "redis"),
    "rediss+sentinel": ("headrace.stores.redis", "redis"),
    "valkey+sentinel": ("headrace.stores.redis", "redis"),
    "valkeys+sentinel": ("headrace.stores.redis", "redis"),
    "redis+cluster": ("headrace.stores.redis", "redis"),
    "rediss+cluster": ("headrace.stores.redis", "redis"),
    "valkey+cluster": ("headrace.stores.redis", "redis"),
    "valkeys+cluster": ("headrace.stores.redis", "redis"),
}

#: The schemes for a message: the others are those of Redis with TLS, by another name or in another form.
_KNOWN = "memory://, sqlite:///, postgresql://, redis://, redis+sentinel:// or redis+cluster://"

#: The stores that apps were given, by their identity: a store may be neither hashable nor like any other.
_given: WeakValueDictionary[int, Store] = WeakValueDictionary()


class Creator(Protocol):
    """What each backend module offers as `create`: checks URL and options, touches nothing yet."""

    def __call__(
        self,
        url: str,
        *,
        namespace: str,
        durability: str,
        clock: TimeSource,
        credentials: Credentials | None = None,
    ) -> Store: ...


class BackendModule(Protocol):
    @property
    def create(self) -> Creator: ...


def chosen_url(given: object) -> str:
    """The URL that was given, else that of the environment, else the default one."""
    url = os.environ.get("HEADRACE_URL") or DEFAULT_URL if given is None else given
    if not isinstance(url, str):
        raise ConfigurationError(f"a store's URL is a text such as {DEFAULT_URL!r}, not {url!r}")
    return url


def chosen_store(
    url: str | None,
    store: object,
    *,
    namespace: str,
    durability: str,
    clock: TimeSource,
    credentials: Credentials | None = None,
) -> Store:
    """The store of an app: the one that it was given, or the one that its URL names, not yet connected."""
    if store is None:
        return open_store(
            chosen_url(url),
            namespace=namespace,
            durability=durability,
            clock=clock,
            credentials=checked_credentials(credentials),
        )
    if url is not None:
        raise ConfigurationError("give an app a URL or a store=, not both")
    if not isinstance(store, Store):
        raise ConfigurationError(f"store= takes a store (see headrace.store), not {store!r}")
    for name, value, default in (
        ("namespace", namespace, DEFAULT_NAMESPACE),
        ("durability", durability, DEFAULT_DURABILITY),
        ("credentials", credentials, None),
    ):
        if value != default:
            raise ConfigurationError(f"{name}= goes with a URL: a store that is given as store= has its own")
    return _own_handle(store)


def _own_handle(store: Store) -> Store:
    """The store itself for the first app that is given it. Each later app gets a twin, since an app closes
    its store, and the other apps still use theirs."""
    if _given.get(id(store)) is store:
        return store.for_other_loop()
    _given[id(store)] = store
    return store


def open_store(
    url: str,
    *,
    namespace: str = "headrace",
    durability: str = "default",
    clock: TimeSource | None = None,
    credentials: Credentials | None = None,
) -> Store:
    """The store that `url` names, not yet connected; a `ConfigurationError` says what is wrong with it."""
    module = _module(url)
    return module.create(
        url,
        namespace=namespace,
        durability=durability,
        clock=clock or SystemClock(),
        credentials=credentials,
    )


def _module(url: str) -> BackendModule:
    scheme, found, _ = url.partition("://")
    if not found or scheme not in SCHEMES:
        shown = "a URL that may hold a password" if "@" in url else repr(url)
        raise ConfigurationError(f"{shown} is no store that headrace knows; it starts with {_KNOWN}")
    name, extra = SCHEMES[scheme]
    try:
        return cast(BackendModule, import_module(name))
    except ModuleNotFoundError as error:
        if extra is None or (error.name or "").startswith("headrace"):
            raise
        raise ConfigurationError(
            f"{scheme}:// needs {error.name}, which is not installed: pip install 'headrace[{extra}]'"
        ) from error
