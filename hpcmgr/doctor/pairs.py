"""Which runtime works with which driver: the makers' rules, read from ``pairs.yaml``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from hpcmgr.versions import compare, starts_with
from hpcmgr.yamlfile import load_model

FILE = Path(__file__).with_name("pairs.yaml")

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
    """The rules of one maker. ``runtime`` and ``driver`` are what they are called."""

    name: str
    vendor: str
    runtime: str
    driver: str
    key: Literal["runtime", "driver", "same"]
    complete: bool = True
    why: str
    fix: str
    sources: tuple[str, ...] = Field(min_length=1)
    rows: tuple[Row, ...] = ()

    def judge(self, runtime: str, driver: str) -> tuple[Verdict, str]:
        """Whether the two go together, and what would."""
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

    schema_: Literal["hpcmgr.pairs/1"] = Field(alias="schema")
    rules: tuple[Rule, ...]


@dataclass(frozen=True, slots=True)
class Judged:
    """One rule applied to one pair."""

    rule: Rule
    verdict: Verdict
    wanted: str


@cache
def rules() -> tuple[Rule, ...]:
    """All rules of the package."""
    return load_model(FILE, Rules).rules


def judge(vendor: str, runtime: str, driver: str) -> list[Judged]:
    """Every rule of a maker on a pair. The first that does not hold makes later ones needless."""
    judged = []
    for rule in rules():
        if rule.vendor == vendor:
            verdict, wanted = rule.judge(runtime, driver)
            judged.append(Judged(rule, verdict, wanted))
            if verdict == "refused":
                break
    return judged


def _release(version: str) -> str:
    """``1.22.1-6f0e1b2`` → ``1.22.1``."""
    return version.partition("-")[0]
