"""``hpcmgr profiles``: the library of device profiles."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from hpcmgr.profile import DeviceProfile, ProfileLibrary


@click.group()
def command() -> None:
    """List, show and check device profiles."""


@command.command("list")
@click.option("--slices", is_flag=True, help="List the slices of devices too (MIG, vNPU).")
@click.option("--json", "as_json", is_flag=True, help="Print all profiles, slices too, as JSON.")
@click.pass_context
def list_(ctx: click.Context, slices: bool, as_json: bool) -> None:
    """Every profile that holds at this site, its GRES, units and memory."""
    library = _library(ctx)
    if as_json:
        profiles = [_plain(profile) for profile in library.profiles]
        click.echo(json.dumps({"schema": "hpcmgr.profiles/1", "profiles": profiles}, indent=2))
        return
    from hpcmgr.cli.console import table

    rows = [
        (p.name, p.gres_key, str(p.booked_units or "?"), _gib(p), p.vendor, p.runtime, p.title)
        for p in library.profiles
        if slices or p.slice_of is None
    ]
    table(("PROFILE", "GRES", "UNITS", "MEMORY", "VENDOR", "RUNTIME", "TITLE"), rows)


@command.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print the profile as JSON.")
@click.pass_context
def show(ctx: click.Context, name: str, as_json: bool) -> None:
    """One profile with its figures and their sources, and which runtime goes with which driver."""
    from hpcmgr.errors import UsageProblem
    from hpcmgr.profile.runtimes import rules_of

    library = _library(ctx)
    profile = library.get(name)
    if profile is None:
        names = [p.name for p in library.profiles if p.slice_of is None]
        # "h100" is no misspelt z100, but the beginning of four names.
        close = [n for n in names if name in n] or difflib.get_close_matches(name, names, n=1)
        maybe = f" Did you mean {' or '.join(map(repr, close[:6]))}?" if close else ""
        raise UsageProblem(f"no profile {name!r}.{maybe}", "'hpcmgr profiles list' shows them all")
    rules = rules_of(profile.vendor, profile.runtime)
    if as_json:
        told = [rule.model_dump(mode="json", exclude_none=True) for rule in rules]
        click.echo(json.dumps(_plain(profile) | {"runtime_rules": told}, indent=2))
        return
    import yaml

    shown = profile.model_dump(mode="json", by_alias=True, exclude_none=True)
    click.echo(yaml.safe_dump(shown, sort_keys=False, allow_unicode=True), nl=False)
    click.echo(f"# one device is booked as {profile.booked_units or 'unknown'} units")
    for rule in rules:
        click.echo(f"#\n# {rule.name}, by {' '.join(rule.sources)}")
        click.echo("".join(f"#   {line}\n" for line in rule.lines()), nl=False)
    kinds = profile.slicing.slices if profile.slicing else {}
    for name, kind in kinds.items():
        piece = library.slice_of(profile, name)
        if piece is not None:
            units = piece.booked_units or "unknown"
            click.echo(
                f"# slice {name}: {piece.gres_key}, {units} units, {_gib(piece)}, "
                f"at most {kind.most}"
            )


@command.command()
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@click.pass_context
def check(ctx: click.Context, files: tuple[Path, ...]) -> None:
    """Check profile files, or without FILE the whole library of this site."""
    from hpcmgr.errors import ConfigError, Problem
    from hpcmgr.profile import DeviceProfile, ProfileLibrary
    from hpcmgr.profile.slices import with_slices, wrong_tables
    from hpcmgr.yamlfile import load_model

    library = _library(ctx)
    if not files:
        click.echo(f"{len(library.profiles)} profiles are good")
        return
    problems: list[Problem] = []
    merged = {profile.name: profile for profile in library.profiles}
    for path in files:
        try:
            profile = load_model(path, DeviceProfile)
        except ConfigError as error:
            problems += error.problems
            continue
        merged[profile.name] = profile
    together = with_slices(merged.values())
    problems += [Problem(None, None, text) for text in wrong_tables(together.values())]
    if not problems:
        # What a site's file may not clash with: the other files and the library.
        ProfileLibrary(tuple(together.values()))
        click.echo(f"{len(files)} {'file is' if len(files) == 1 else 'files are'} good")
        return
    raise ConfigError(problems)


def _library(ctx: click.Context) -> ProfileLibrary:
    from hpcmgr.profile.site import library_of
    from hpcmgr.settings import load_site

    return library_of(load_site(ctx.obj))


def _plain(profile: DeviceProfile) -> dict[str, object]:
    return {
        **profile.model_dump(mode="json", by_alias=True),
        "booked_units": profile.booked_units,
    }


def _gib(profile: DeviceProfile) -> str:
    return "?" if profile.memory_gib is None else f"{profile.memory_gib} GiB"
