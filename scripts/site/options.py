"""An extension of griffe, which reads docstrings for the reference of the site.

Docstrings of headrace list options as `- `name`: meaning`. The reference adds the type
and the default value of each option. It shows the fields of a struct in the same way. Signatures are
those of the running code, because `shows_options` writes options into them.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from inspect import Parameter
from typing import Any

import griffe
import msgspec

import headrace.testing  # noqa: F401  (with it, everything that is public is imported)

_ITEM = re.compile(r"- ((?:`\w+`(?:, | and | or )?)+):\s*(.*)", re.DOTALL)

#: Parameters that only make an error of an unknown option.
_HIDDEN = ("self", "cls", "unknown")

#: In signatures, the default of an option that has none of its own: its meaning says what holds.
_UNSET = "..."


class Options(griffe.Extension):
    """Reads lists of options as parameters with types."""

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        for each in _functions_and_classes(pkg):
            running = _running(each)
            if isinstance(each, griffe.Function) and callable(running):
                _show_function(each, running)
            elif isinstance(each, griffe.Class) and isinstance(running, type):
                _show_class(each, running)


def _functions_and_classes(module: griffe.Object) -> Iterator[griffe.Object]:
    for member in module.members.values():
        if isinstance(member, griffe.Alias):
            continue
        if isinstance(member, griffe.Class):
            yield from _functions_and_classes(member)  # before the class, which has the types of __init__
        if isinstance(member, griffe.Function | griffe.Class):
            yield member
        elif isinstance(member, griffe.Module):
            yield from _functions_and_classes(member)


def _running(member: griffe.Object) -> Any:
    """What the running code has in this place. None: the public names do not import it."""
    try:
        found: Any = sys.modules[member.module.path]
        for name in member.path.removeprefix(f"{member.module.path}.").split("."):
            found = inspect.getattr_static(found, name)
    except (KeyError, AttributeError):
        return None
    return found.__func__ if isinstance(found, classmethod | staticmethod) else found


def _show_function(function: griffe.Function, running: Any) -> None:
    parameters = dict(inspect.signature(running).parameters)
    shown = griffe.Parameters()
    for name, each in parameters.items():
        if name not in _HIDDEN or name in ("self", "cls"):
            shown.add(_parameter(each))
    function.parameters = shown
    if function.docstring is not None:
        _set_sections(function.docstring, _options(parameters), griffe.DocstringSectionParameters)


def _show_class(shown: griffe.Class, running: type) -> None:
    if shown.docstring is None:
        return
    if issubclass(running, msgspec.Struct) and not issubclass(running, BaseException):
        shown.docstring.__dict__["parsed"] = _struct_sections(shown.docstring.value, running)
    elif not issubclass(running, BaseException):
        parameters = inspect.signature(running.__init__).parameters
        _set_sections(shown.docstring, _options(parameters), griffe.DocstringSectionParameters)


def _struct_sections(text: str, struct: type[msgspec.Struct]) -> list[Any]:
    """The text, and a list of the fields. Base classes explain their own. Where the text explains some, the
    others are for the engine alone."""
    kind, known = griffe.DocstringSectionAttributes, _fields(struct)
    meanings: dict[str, str] = {}
    for base in reversed(struct.__mro__):
        for each in _sections(base.__dict__.get("__doc__") or "", known, kind):
            meanings |= {item.name: item.description for item in each.value} if isinstance(each, kind) else {}
    sections = _sections(text, known, kind)
    texts = [each for each in sections if not isinstance(each, kind)]
    shown = [name for name in known if name in meanings or len(texts) == len(sections)]
    rows = [_item(kind, name, meanings.get(name, ""), known[name]) for name in shown]
    return [*texts, kind(rows)] if rows else texts


#: A name, its type and its default as texts; None: it has none.
_Known = Mapping[str, tuple[str | None, str | None]]


def _options(parameters: Mapping[str, Parameter]) -> _Known:
    shown = {name: each for name, each in parameters.items() if name not in _HIDDEN}
    defaults = {name: _default(each.default) for name, each in shown.items()}
    return {
        name: (_annotation(each.annotation), defaults[name] if defaults[name] != _UNSET else None)
        for name, each in shown.items()
    }


def _fields(struct: type[msgspec.Struct]) -> _Known:
    annotations: dict[str, object] = {}
    for base in reversed(struct.__mro__):
        annotations.update(inspect.get_annotations(base))
    return {
        name: (_annotation(annotations[name]), None)
        for name in struct.__struct_fields__
        if not name.startswith("_")
    }


def _set_sections(docstring: griffe.Docstring, known: _Known, kind: type[Any]) -> None:
    docstring.__dict__["parsed"] = _sections(docstring.value, known, kind)


def _sections(text: str, known: _Known, kind: type[Any]) -> list[Any]:
    """The text in sections: a list of known names is a section of its own."""
    sections: list[Any] = []
    for part in _parts(text):
        item = _ITEM.fullmatch(part)
        names = re.findall(r"\w+", item[1].replace(" and ", ",").replace(" or ", ",")) if item else []
        if item is not None and names and all(name in known for name in names):
            if not (sections and isinstance(sections[-1], kind)):
                sections.append(kind([]))
            meaning = " ".join(item[2].split())
            sections[-1].value.extend(_item(kind, name, meaning, known[name]) for name in names)
        elif sections and isinstance(sections[-1], griffe.DocstringSectionText):
            sections[-1].value += f"\n\n{part}" if not part.startswith("- ") else f"\n{part}"
        else:
            sections.append(griffe.DocstringSectionText(part))
    return sections


def _parts(text: str) -> list[str]:
    """Paragraphs, and items of lists each by itself."""
    parts = []
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        parts += re.split(r"\n(?=- )", paragraph)
    return [part for part in parts if part.strip()]


def _item(kind: type[Any], name: str, meaning: str, known: tuple[str | None, str | None]) -> Any:
    annotation, default = known
    if kind is griffe.DocstringSectionAttributes:
        return griffe.DocstringAttribute(name, annotation=annotation, description=meaning)
    return griffe.DocstringParameter(name, annotation=annotation, description=meaning, value=default)


def _parameter(parameter: Parameter) -> griffe.Parameter:
    kinds = {
        Parameter.POSITIONAL_ONLY: griffe.ParameterKind.positional_only,
        Parameter.POSITIONAL_OR_KEYWORD: griffe.ParameterKind.positional_or_keyword,
        Parameter.VAR_POSITIONAL: griffe.ParameterKind.var_positional,
        Parameter.KEYWORD_ONLY: griffe.ParameterKind.keyword_only,
        Parameter.VAR_KEYWORD: griffe.ParameterKind.var_keyword,
    }
    variadic = parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    return griffe.Parameter(
        parameter.name,
        annotation=_annotation(parameter.annotation),
        kind=kinds[parameter.kind],
        default=("()" if parameter.kind is Parameter.VAR_POSITIONAL else "{}")
        if variadic
        else _default(parameter.default),
    )


def _annotation(annotation: object) -> str | None:
    if annotation is Parameter.empty:
        return None
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _default(default: object) -> str | None:
    if default is Parameter.empty:
        return None
    return _UNSET if default in (..., msgspec.UNSET) else repr(default)
