"""A site's own texts for users: a YAML file, id → text with the same placeholders."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, create_model

from hpcmgr.submit.messages import TEXTS, placeholders
from hpcmgr.yamlfile import load_model


def load_texts(path: Path) -> dict[str, str]:
    """The texts of a file.

    Raises:
        ConfigError: with every problem: unknown ids, placeholders that are not those of the text.
    """
    return load_model(path, _model()).model_dump(exclude_unset=True)


@cache
def _model() -> type[BaseModel]:
    fields: dict[str, Any] = {
        key: (Annotated[str, AfterValidator(_checker(text))], text) for key, text in TEXTS.items()
    }
    return create_model("Texts", __config__=ConfigDict(extra="forbid"), **fields)


def _checker(own: str) -> Callable[[str], str]:
    def check(value: str) -> str:
        mine, theirs = placeholders(own), placeholders(value)
        if theirs - mine:
            raise ValueError(f"has no {_braces(theirs - mine)}; it may hold {_braces(mine)}")
        if mine - theirs:
            raise ValueError(f"lacks {_braces(mine - theirs)}")
        return value

    return check


def _braces(names: frozenset[str]) -> str:
    return ", ".join(f"{{{name}}}" for name in sorted(names)) or "none"
