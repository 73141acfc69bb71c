"""The parts of docs/ that the code knows better: `make docs` writes them, a test compares them.

python docs/generate.py [--check]
"""

from __future__ import annotations

import ast
import re
import sys
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import click
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from hpcmgr.cli.root import COMMANDS, root
from hpcmgr.settings import Site, fields
from hpcmgr.slurm.capability import CAPABILITIES, Capability

DOCS = Path(__file__).parent
NAMED = {
    fields.Hostlist: "hostlist",
    fields.Word: "word",
    fields.NodeWord: "word",
    fields.SwitchName: "name",
}
PLAIN = {str: "text", Path: "path", bool: "yes or no", int: "whole number", float: "number"}


# --- site.yaml ---


def site_keys() -> str:
    """A table for every section, with every key."""
    files = sorted(Path(fields.__file__).parent.glob("*.py"))
    meanings = {k: v for file in files for k, v in _meanings(file.read_text()).items()}
    parts = []
    for place, model in _sections(Site, ""):
        rows = [_row(model, name, f, meanings) for name, f in model.model_fields.items()]
        head = f"## `{place}`" if place else "## At the top"
        parts.append(
            "\n".join([head, "", "| key | value | default | means |", "| --- | --- | --- | --- |",
                       *rows])
        )  # fmt: skip
    return "\n\n".join(parts)


def _sections(model: type[BaseModel], place: str) -> Iterator[tuple[str, type[BaseModel]]]:
    """The model and all below it, with their places in the file."""
    yield place, model
    for name, hint in _hints(model).items():
        for inner, suffix in _models_in(hint):
            here = f"{place}.{name}" if place else name
            yield from _sections(inner, here + suffix)


def _hints(model: type[BaseModel]) -> dict[str, Any]:
    hints = typing.get_type_hints(model, include_extras=True)
    return {name: hints[name] for name in model.model_fields}


def _models_in(hint: Any) -> Iterator[tuple[type[BaseModel], str]]:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        yield from _models_in(args[0])
    elif isinstance(hint, type) and issubclass(hint, BaseModel):
        yield hint, ""
    elif origin is tuple:
        yield from ((model, f"[]{rest}") for model, rest in _models_in(args[0]))
    elif origin is dict:
        yield from ((model, f".NAME{rest}") for model, rest in _models_in(args[1]))


def _row(model: type[BaseModel], name: str, field: FieldInfo, meanings: dict[str, str]) -> str:
    where = next(c.__name__ for c in model.__mro__ if name in vars(c).get("__annotations__", {}))
    meaning = meanings[f"{where}.{name}"]
    value = _value(_hints(model)[name]) + _bounds(field)
    cells = [f"`{field.alias or name}`", value, _default(field), meaning]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _value(hint: Any) -> str:
    """What may stand there, in a word."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    simple = _simple(hint)
    if simple:
        return simple
    if origin is Literal:
        return ", ".join(f"`{each}`" for each in args)
    if origin is tuple:
        return "list" + _of(args[0])
    if origin is dict:
        return "mapping" + _of(args[1])
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_value(each) for each in args if each is not type(None))
    return _value(args[0])  # Annotated


def _simple(hint: Any) -> str:
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        return "section"
    try:
        return NAMED.get(hint) or PLAIN.get(hint) or ""
    except TypeError:  # an annotation that cannot be hashed
        return ""


def _of(hint: Any) -> str:
    word = _value(hint)
    return "" if word == "text or whole number" else f" of {word}s"


def _bounds(field: FieldInfo) -> str:
    for rule in field.metadata:
        for name, word in (("ge", "from"), ("gt", "above")):
            if hasattr(rule, name):
                return f" {word} {getattr(rule, name):g}"
    return ""


def _default(field: FieldInfo) -> str:
    value = field.default
    if field.is_required():
        return "must be given"
    if isinstance(value, BaseModel):
        return "below"
    if value is None or value in ((), {}):
        return "none"
    if isinstance(value, dict):
        return "`{" + ", ".join(f"{k}: {v:g}" for k, v in value.items()) + "}`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def _meanings(source: str) -> dict[str, str]:
    """The string below each field of a file of hpcmgr/settings/, by CLASS.FIELD."""
    found = {}
    for item in ast.parse(source).body:
        if isinstance(item, ast.ClassDef):
            for field, after in zip(item.body, item.body[1:], strict=False):
                text = _text(after)
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and text:
                    found[f"{item.name}.{field.target.id}"] = " ".join(text.split())
    return found


def _text(item: ast.stmt) -> str:
    if isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant):
        return item.value.value if isinstance(item.value.value, str) else ""
    return ""


# --- releases ---


def releases() -> str:
    """The table of hpcmgr/slurm/capability.py."""
    rows = [f"| {c.meaning} | {_span(c)} | {', '.join(c.seen) or '-'} |" for c in
            CAPABILITIES.values()]  # fmt: skip
    return "\n".join(["| Slurm does | in releases | seen on |", "| --- | --- | --- |", *rows])


def _span(each: Capability) -> str:
    since = f"from {each.since}" if each.since else ""
    until = f"before {each.until}" if each.until else ""
    return " ".join(filter(None, [since, until])).replace(".0 ", " ").removesuffix(".0") or "all"


# --- commands ---


def commands() -> str:
    """The help of every command."""
    parts = [_help(root, "hpcmgr", None)]
    context = click.Context(root, info_name="hpcmgr", **root.context_settings)
    for name in COMMANDS:
        command = root.get_command(context, name)
        if command is not None:
            parts += _with_subcommands(command, name, context)
    return "\n\n".join(parts)


def _with_subcommands(command: click.Command, name: str, parent: click.Context) -> list[str]:
    parts = [_help(command, name, parent)]
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=name, parent=parent)
        for sub, inner in command.commands.items():
            parts += _with_subcommands(inner, sub, context)
    return parts


def _help(command: click.Command, name: str, parent: click.Context | None) -> str:
    settings_ = {"terminal_width": 90, "max_content_width": 90, **command.context_settings}
    context = click.Context(command, info_name=name, parent=parent, **settings_)
    level = "#" * (2 + len(context.command_path.split()) // 3)
    return f"{level} {context.command_path}\n\n```\n{command.get_help(context)}\n```"


# --- into the pages ---

PARTS: dict[str, Callable[[], str]] = {
    "site-yaml.md": site_keys,
    "slurm.md": releases,
    "cli.md": commands,
}
_BLOCK = re.compile(r"(<!-- begin: make docs -->\n).*?(<!-- end: make docs -->)", re.DOTALL)


def page(name: str) -> str:
    """The page as it should be."""
    text = (DOCS / name).read_text()
    made, count = _BLOCK.subn(lambda m: f"{m[1]}\n{PARTS[name]()}\n\n{m[2]}", text)
    if count != 1:
        raise SystemExit(f"docs/{name}: one block '<!-- begin: make docs -->' is needed")
    return made


def main(check: bool) -> int:
    """Write the pages; with ``check`` only say which are out of date."""
    stale = [name for name in PARTS if page(name) != (DOCS / name).read_text()]
    for name in stale:
        print(f"docs/{name}: {'is out of date, run make docs' if check else 'written'}")  # noqa: T201
        if not check:
            (DOCS / name).write_text(page(name))
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
