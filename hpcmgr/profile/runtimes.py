"""Which runtime works with which driver: the makers' rules, read from ``runtimes.yaml``.

``judge`` says of one pair whether it goes together; ``serves`` says which releases of a runtime a
driver serves.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cmp_to_key
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from hpcmgr.profile.model import Word
from hpcmgr.versions import compare, starts_with
from hpcmgr.yamlfile import load_model

FILE = Path(__file__).with_name("runtimes.yaml")

Verdict = Literal["good", "refused", "doubtful", "unknown"]


class Strict(BaseModel):
    """No unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Row(Strict):
    """What goes together: these runtimes with these drivers, or with every driver from
    ``minimum`` on."""

    runtime: tuple[str, ...]
    driver: tuple[str, ...] = ()
    minimum: str | None = None
    complete: bool | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if bool(self.driver) is bool(self.minimum):
            raise ValueError("give either driver or minimum")
        return self

    def has_runtime(self, version: str) -> bool:
        """Whether the row is about this runtime."""
        return any(starts_with(version, start) for start in self.runtime)

    def has_driver(self, version: str) -> bool:
        """Whether the row allows this driver."""
        if self.minimum is not None:
            return compare(version, self.minimum) >= 0
        return any(starts_with(version, start) for start in self.driver)


class Rule(Strict):
    """The rules of one maker. ``word`` is the runtime as profiles name it, ``runtime`` and
    ``driver`` are what people call them. ``told``: the number that a driver tells of itself, where
    that is none of its release, and its release."""

    name: str
    vendor: str
    word: Word
    runtime: str
    driver: str
    key: Literal["runtime", "driver", "same"]
    complete: bool = True
    why: str
    fix: str
    sources: tuple[str, ...] = Field(min_length=1)
    told: dict[str, str] = {}
    rows: tuple[Row, ...] = ()

    def judge(self, runtime: str, driver: str) -> tuple[Verdict, str]:
        """Whether the two go together, and what would."""
        if not driver[:1].isdigit():
            return "unknown", ""
        if self.key == "same":
            mine, theirs = _release(runtime), _release(driver)
            good = compare(mine, theirs) == 0
            return ("good" if good else "refused"), f"the same release, {theirs}"
        rows = [row for row in self.rows if self._about(row, runtime, driver)]
        if not rows:
            return "unknown", ""
        row = rows[0]
        if row.has_runtime(runtime) and row.has_driver(driver):
            return "good", ""
        complete = self.complete if row.complete is None else row.complete
        return ("refused" if complete else "doubtful"), self._wanted(row)

    def lines(self) -> list[str]:
        """The rule for people, a pair a line."""
        if self.key == "same":
            return [f"{self.runtime} and {self.driver}: the same release"]
        lines = []
        for row in self.rows:
            driver = f"{row.minimum} or newer" if row.minimum else ", ".join(row.driver)
            lines.append(f"{self.runtime} {', '.join(row.runtime)}: {self.driver} {driver}")
        return lines

    def _about(self, row: Row, runtime: str, driver: str) -> bool:
        return row.has_runtime(runtime) if self.key == "runtime" else row.has_driver(driver)

    def _wanted(self, row: Row) -> str:
        if self.key == "driver":
            return f"{self.runtime} {', '.join(row.runtime)}"
        if row.minimum is not None:
            return f"{self.driver} {row.minimum} or newer"
        return f"{self.driver} {', '.join(row.driver)}"


class Rules(Strict):
    """The whole file."""

    schema_: Literal["hpcmgr.runtimes/1"] = Field(alias="schema")
    rules: tuple[Rule, ...]


@dataclass(frozen=True, slots=True)
class Judged:
    """One rule applied to one pair."""

    rule: Rule
    verdict: Verdict
    wanted: str


@dataclass(frozen=True, slots=True)
class Served:
    """The releases of a runtime that a driver serves, both ends included, as first parts (``12.4``
    stands for every 12.4.x). ``oldest`` None: every older one too."""

    oldest: str | None
    newest: str


@cache
def rules() -> tuple[Rule, ...]:
    """All rules of the package."""
    return load_model(FILE, Rules).rules


def rules_of(vendor: str, runtime: str) -> tuple[Rule, ...]:
    """The maker's rules about one runtime (``cuda``, ``rocm``, …)."""
    return tuple(rule for rule in rules() if rule.vendor == vendor and rule.word == runtime)


def judge(vendor: str, runtime: str, driver: str) -> list[Judged]:
    """Every rule of a maker on a pair. The first that does not hold makes later ones needless.

    ``driver`` is its release (``release``).
    """
    judged = []
    for rule in rules():
        if rule.vendor == vendor:
            verdict, wanted = rule.judge(runtime, driver)
            judged.append(Judged(rule, verdict, wanted))
            if verdict == "refused":
                break
    return judged


def release(vendor: str, driver: str) -> str | None:
    """The driver's release by what it tells of itself: AMD's module 6.10.5 is release 6.3.

    None where the maker counts both apart and the number is not known.
    """
    told = next((rule.told for rule in rules() if rule.vendor == vendor and rule.told), None)
    return driver if told is None else told.get(driver)


def serves(vendor: str, driver: str | None, runtime: str, told: str | None = None) -> Served | None:
    """Which releases of ``runtime`` (``cuda``, ``rocm``, ``cann``, …) a device's driver serves.

    Args:
        driver: what the driver tells of itself, as in the inventory.
        told: the newest release by the driver's own word (``runtime_version`` of the inventory),
            believed before any table.

    Returns:
        None where nobody knows. What runs by minor-version compatibility only is not counted.
    """
    mine = rules_of(vendor, runtime)
    number = release(vendor, driver) if driver else None
    versions = _served(mine, number) if number else []
    # With a smallest driver for every release, a driver serves all that came before it.
    backward = any(row.minimum for rule in mine for row in rule.rows)
    if told:
        return Served(None if backward or not versions else versions[0], told)
    if not versions:
        return None
    return Served(None if backward else versions[0], versions[-1])


def _served(mine: tuple[Rule, ...], driver: str) -> list[str]:
    """Releases of the table that every rule lets go with the driver, oldest first."""
    if any(rule.key == "same" for rule in mine):
        return [_release(driver)]
    named = {version for rule in mine for row in rule.rows for version in row.runtime}
    good = []
    for version in named:
        verdicts = {rule.judge(version, driver)[0] for rule in mine}
        if "good" in verdicts and verdicts <= {"good", "unknown"}:
            good.append(version)
    return sorted(good, key=cmp_to_key(compare))


def _release(version: str) -> str:
    """``1.22.1-6f0e1b2`` → ``1.22.1``."""
    return version.partition("-")[0]
