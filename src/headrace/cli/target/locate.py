"""`module:app` → the App."""

from __future__ import annotations

import importlib
import os
import sys
from traceback import extract_tb

import headrace
from headrace.app import App
from headrace.core.errors import ConfigurationError


def locate(target: str) -> App:
    """Import the module, with the working directory on the path, and find the app in it."""
    module_name, found, attribute = target.partition(":")
    if not found or not module_name or not attribute:
        raise ConfigurationError(
            f"{target!r} does not say where the app is: write module:app, such as shop:app"
        )
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    app = _attribute(_imported(module_name), attribute, target)
    if not isinstance(app, App):
        raise ConfigurationError(f"{target} is no App: its type is {type(app).__name__}")
    return app


def _imported(name: str) -> object:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            place, module = os.getcwd(), name.removesuffix(".py").replace(os.sep, ".")
            hint = "" if module == name else f": write the module, {module}"
            raise ConfigurationError(
                f"there is no module {name!r} in {place} or on the Python path{hint}"
            ) from None
        raise ConfigurationError(f"{name} cannot be imported: {error}") from error
    except ConfigurationError:
        raise
    except Exception as error:
        raise ConfigurationError(
            f"{name} cannot be imported: {type(error).__name__}: {error}{_place(error)}"
        ) from error


def _place(error: Exception) -> str:
    """The last line of the user's own code that ran. A SyntaxError names its line itself."""
    libraries = (*map(os.path.dirname, (headrace.__file__, importlib.__file__)), "<frozen")
    lines = [
        f" ({each.filename}, line {each.lineno})"
        for each in extract_tb(error.__traceback__)
        if not each.filename.startswith(libraries) and "site-packages" not in each.filename
    ]
    return lines[-1] if lines else ""


def _attribute(module: object, path: str, target: str) -> object:
    found = module
    for name in path.split("."):
        if not hasattr(found, name):
            apps = [key for key, value in vars(module).items() if isinstance(value, App)]
            hint = f"; it has {', '.join(apps)}" if apps else "; it has no App at all"
            raise ConfigurationError(f"{target.partition(':')[0]} has no {path!r}{hint}")
        found = getattr(found, name)
    return found
