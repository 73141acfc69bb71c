"""YAML files into checked models; every problem is told at once, with its line and the valid names.

The YAML is composed into nodes first, since those carry line numbers; pydantic then says what is
wrong, and its path is looked up in the nodes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from hpcmgr.errors import ConfigError, Problem, did_you_mean

Model = TypeVar("Model", bound=BaseModel)
_MAX_BYTES = 8 << 20


def load_model(path: Path, model: type[Model]) -> Model:
    """Read ``path`` and check it against ``model``.

    Raises:
        ConfigError: the file is missing, unreadable, no YAML, or does not fit the model.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError([Problem(path, None, f"cannot be read: {error.strerror}")]) from error
    if len(data) > _MAX_BYTES:
        raise ConfigError([Problem(path, None, f"is larger than {_MAX_BYTES >> 20} MiB")])
    return parse_model(data, path, model)


def parse_model(data: bytes | str, path: Path, model: type[Model]) -> Model:
    """The same for text that is at hand; ``path`` is only named in messages."""
    root = _compose(data, path)
    try:
        value = yaml.SafeLoader("").construct_document(root) if root is not None else {}
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError([Problem(path, _line_of(error), f"no valid YAML: {error}")]) from error
    try:
        return model.model_validate({} if value is None else value)
    except ValidationError as error:
        raise ConfigError(_problems(error, root, path, model)) from error


def _compose(data: bytes | str, path: Path) -> yaml.Node | None:
    try:
        root = _nodes_of(data)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        text = str(getattr(error, "problem", None) or error)
        raise ConfigError([Problem(path, _line_of(error), f"no valid YAML: {text}")]) from error
    problems = [
        Problem(path, key.start_mark.line + 1, f"key {key.value!r} stands twice")
        for key in _double_keys(root)
    ]
    if problems:
        raise ConfigError(problems)
    return root


def _nodes_of(data: bytes | str) -> yaml.Node | None:
    """With libyaml where PyYAML has it, five times as fast; what is wrong PyYAML itself tells
    better."""
    fast = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        root: yaml.Node | None = yaml.compose(data, Loader=fast)
    except yaml.YAMLError:
        root = yaml.compose(data, Loader=yaml.SafeLoader)
    return root


def _double_keys(node: yaml.Node | None) -> list[yaml.Node]:
    """Keys that stand twice in one mapping: YAML would silently keep the last."""
    found: list[yaml.Node] = []
    todo, done = [node] if node is not None else [], set()
    while todo:
        node = todo.pop()
        if id(node) in done:
            continue
        done.add(id(node))
        if isinstance(node, yaml.MappingNode):
            seen: set[str] = set()
            for key, value in node.value:
                if isinstance(key, yaml.ScalarNode):
                    if key.value in seen:
                        found.append(key)
                    seen.add(key.value)
                todo.append(value)
        elif isinstance(node, yaml.SequenceNode):
            todo.extend(node.value)
    return found


def _line_of(error: Exception) -> int | None:
    mark = getattr(error, "problem_mark", None)
    return mark.line + 1 if mark is not None else None


def _problems(
    error: ValidationError, root: yaml.Node | None, path: Path, model: type[BaseModel]
) -> list[Problem]:
    problems = []
    for item in error.errors(include_url=False):
        loc = item["loc"]
        where = ".".join(str(part) for part in loc)
        text = item["msg"].removeprefix("Value error, ")
        if item["type"] == "extra_forbidden":
            text = _unknown_key(str(loc[-1]), _keys_at(model, loc[:-1]))
        given = item.get("input")
        if isinstance(given, str | int | float) and item["type"] not in {
            "extra_forbidden",
            "value_error",
        }:
            text += f" (is {given!r})"
        problems.append(Problem(path, _line_at(root, loc), f"{where}: {text}" if where else text))
    return sorted(problems, key=lambda p: (p.line or 0, p.text))


def _unknown_key(key: str, valid: list[str]) -> str:
    text = f"unknown key{did_you_mean(key, valid)}"
    return f"{text}; valid: {', '.join(valid)}" if valid else text


def _keys_at(model: Any, loc: tuple[int | str, ...]) -> list[str]:
    """Names of the fields of the model that ``loc`` leads to; empty when it leads elsewhere."""
    current: Any = model
    for part in loc:
        fields = getattr(current, "model_fields", None)
        if fields is not None:
            field = fields.get(str(part)) or next(
                (f for f in fields.values() if f.alias == str(part)), None
            )
            current = field.annotation if field is not None else None
        else:
            current = _inner(current)
        current = _model_in(current, keep_container=True)
    current = _model_in(current, keep_container=False)
    fields = getattr(current, "model_fields", None)
    return sorted(f.alias or name for name, f in fields.items()) if fields else []


def _inner(annotation: Any) -> Any:
    """The value type of a dict or a sequence annotation."""
    args = [a for a in getattr(annotation, "__args__", ()) if a is not type(None) and a is not ...]
    return args[-1] if args else None


def _model_in(annotation: Any, *, keep_container: bool) -> Any:
    """The model inside ``X | None`` (and, unless kept, inside a container)."""
    if hasattr(annotation, "model_fields"):
        return annotation
    origin = getattr(annotation, "__origin__", None)
    if origin in (dict, list, tuple, frozenset) and keep_container:
        return annotation
    for arg in getattr(annotation, "__args__", ()):
        if hasattr(arg, "model_fields"):
            return arg
        if getattr(arg, "__origin__", None) in (dict, list, tuple):
            return arg
    return annotation


def _line_at(root: yaml.Node | None, loc: tuple[int | str, ...]) -> int | None:
    """Line of the node that ``loc`` leads to, as near as the file has it."""
    node, line = root, (root.start_mark.line + 1 if root is not None else None)
    for part in loc:
        if isinstance(node, yaml.MappingNode):
            entry = next(((k, v) for k, v in node.value if k.value == str(part)), None)
            if entry is None:
                break
            line, node = entry[0].start_mark.line + 1, entry[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            if part >= len(node.value):
                break
            node = node.value[part]
            line = node.start_mark.line + 1
        else:
            break
    return line
