"""Types of values that sections share, and the base of all sections."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from hpcmgr.slurm.hostlist import expand


class Section(BaseModel):
    """Base of all sections: unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def split_address(text: str) -> tuple[str, int]:
    """``"0.0.0.0:7321"``, ``"[::]:7321"``, ``"ctl:7321"`` → host and port.

    Raises:
        ValueError: not of that form.
    """
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise ValueError(f"{text!r} is not of the form HOST:PORT, for example 0.0.0.0:7321")
    return host, int(port)


def _address(text: str) -> str:
    split_address(text)
    return text


def _hostlist(text: str) -> str:
    expand(text)
    return text


Address = Annotated[str, AfterValidator(_address)]
Hostlist = Annotated[str, AfterValidator(_hostlist)]
Word = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_.-]*$")]
NodeWord = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+$")]
SwitchName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]
