"""The Jinja2 environment: strict, no logic in templates but loops.

Templates come from the wheel (``hpcmgr/_templates``) or, in a checkout, from ``templates/``.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

_PACKAGE = Path(__file__).parent.parent


def template_dir() -> Path:
    """Where the templates lie."""
    packaged = _PACKAGE / "_templates"
    return packaged if packaged.is_dir() else _PACKAGE.parent / "templates"


@cache
def _environment() -> Environment:
    # No autoescape: these are configuration files, not HTML.
    return Environment(  # noqa: S701
        loader=FileSystemLoader(template_dir()),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def fill(template: str, **values: object) -> str:
    """Text of ``template`` with ``values``."""
    return _environment().get_template(template).render(**values)
