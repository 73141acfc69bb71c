"""The root group: lazy commands, global options, errors to people, exit codes."""

from __future__ import annotations

import difflib
import importlib
import logging
import sys
from pathlib import Path
from typing import Any

import click

from hpcmgr import __version__
from hpcmgr.errors import HpcmgrError

COMMANDS = {
    "discover": "this host's devices, links, NICs and NUMA nodes",
    "record": "records this host for --host; serials and names can be masked",
    "topo": "this node's device graph: matrix, picture",
    "profiles": "the library of device profiles",
    "sync": "on a compute node: discover, publish, write node-local files",
    "fabric": "the network between the nodes: scans, tree, rails",
    "render": "inventory, profiles and site.yaml into Slurm's files",
    "verify": "lint and prove Slurm's files with Slurm's own daemons",
    "apply": "diff, prove, write, reconfigure, check, roll back on failure",
    "adopt": "what a site's own files mean, beside the machines; how to move over",
    "ledger": "every device ever seen: serial, place, driver, owner, history",
    "serve": "the scoring service",
    "capacity": "devices, units and memory, free and total",
    "quote": "what a request would become; submits nothing",
    "explain": "the story of a job's binding",
    "rebind": "late binding: which waiting jobs move to other devices, and why",
    "pin": "keep a waiting job on the devices that it is bound to",
    "unpin": "let a pinned job move again",
    "doctor": "what is wrong here, and what to do",
}
"""Every command and its one line of help. Its code is ``hpcmgr.cli.NAME:command``."""

EPILOG = "Exit codes: 0 good, 1 error, 2 usage, 3 drift or difference found, 4 partial."


class Root(click.Group):
    """A group that imports a command only when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of the table."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"hpcmgr.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, with "did you mean" and the valid names."""
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in COMMANDS:
            close = difflib.get_close_matches(name, COMMANDS, n=1)
            maybe = f" Did you mean {close[0]!r}?" if close else ""
            ctx.fail(f"No such command {name!r}.{maybe} Commands: {', '.join(COMMANDS)}.")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table of commands, without importing them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=Root, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    help="site.yaml to use (also: HPCMGR_CONFIG; default /etc/hpcmgr/site.yaml).",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="How much to say on stderr; default: info for serve, warning for the others.",
)
@click.version_option(__version__, prog_name="hpcmgr")
@click.pass_context
def root(ctx: click.Context, config: Path | None, log_level: str | None) -> None:
    """One pool from accelerators of several brands, on stock Slurm."""
    level = log_level or ("info" if ctx.invoked_subcommand == "serve" else "warning")
    logging.basicConfig(
        level=level.upper(), stream=sys.stderr, format="hpcmgr: %(levelname)s: %(message)s"
    )
    ctx.obj = config


def run(args: list[str] | None = None) -> None:
    """Entry point: every error becomes one message and an exit code, never a traceback."""
    try:
        code: Any = root.main(args=args, prog_name="hpcmgr", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        click.echo("hpcmgr: interrupted", err=True)
        sys.exit(130)
    except HpcmgrError as error:
        complain(error)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # The reader (head, less) has gone; there is nobody left to tell.
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        click.echo(f"hpcmgr: error: {error.filename or ''}: {error.strerror or error}", err=True)
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)


def complain(error: HpcmgrError) -> None:
    """One error on stderr, its hint on a line of its own."""
    click.echo(f"hpcmgr: error: {error.message}", err=True)
    if error.hint:
        click.echo(f"hpcmgr: hint: {error.hint}", err=True)
