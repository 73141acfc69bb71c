"""Munge credentials: who asks, proven by the kernel of his host and the cluster's shared key.

The payload is part of the credential: whoever decodes it knows that this user wrote it, that it is
no older than a few minutes, and that it was not decoded here before.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from hpcmgr.errors import CommandError, CommandMissing, CommandTimeout, CredentialError
from hpcmgr.slurm.command import Output, run

Runner = Callable[..., Output]

FORM = re.compile(r"MUNGE:[A-Za-z0-9+/=]{16,}:")

_SECONDS = 5.0
_STATUS = {
    6: ("munged cannot be reached", "is the munge daemon running on this host?"),
    7: ("munged gave no answer in time", "look at the munge daemon of this host"),
    11: ("it was made with another key, or forged", "all hosts need the same /etc/munge/munge.key"),
    14: ("it is broken, was made with another key, or forged",
         "all hosts need the same /etc/munge/munge.key"),
    15: ("it has expired", "are the clocks of the hosts the same?"),
    16: ("it was made in the future", "are the clocks of the hosts the same?"),
    17: ("it was used before", "a credential is good for one request; ask again"),
    18: ("it was made for another user", ""),
}  # fmt: skip
"""Exit status of munge(1) and unmunge(1) → meaning, and what to do."""


def encode(payload: str, runner: Runner = run) -> str:
    """A credential of this process's user over ``payload``.

    Raises:
        CredentialError: no munge here, or its daemon does not answer.
    """
    done = _call(("munge", "--ttl=120"), payload, runner)
    credential = done.stdout.strip()
    if not FORM.fullmatch(credential):
        raise CredentialError("munge printed no credential", "try 'munge -n' by hand")
    return credential


def decode(credential: str, runner: Runner = run) -> tuple[int, str]:
    """Uid of the one who made it, and the payload. Good once only.

    Raises:
        CredentialError: forged, expired, used before, or munge does not work here.
    """
    if not FORM.fullmatch(credential):
        raise CredentialError("no munge credential")
    done = _call(("unmunge", "--numeric", "--keys=STATUS,UID"), credential, runner)
    # No field with words of the user's stands before the empty line.
    head, _, payload = done.stdout.partition("\n\n")
    uid = re.search(r"^UID:\s*(\d+)$", head, re.MULTILINE)
    if not uid or not re.search(r"^STATUS:\s*0$", head, re.MULTILINE):
        raise CredentialError("unmunge printed something else than expected")
    return int(uid[1]), payload


def _call(argv: tuple[str, ...], text: str, runner: Runner) -> Output:
    try:
        done = runner(*argv, stdin=text, timeout=_SECONDS, check=False)
    except CommandMissing as error:
        raise CredentialError(
            error.message, "install munge with the cluster's key, as Slurm itself needs it"
        ) from error
    except CommandTimeout as error:
        raise CredentialError(error.message, _STATUS[7][1]) from error
    except CommandError as error:
        raise CredentialError(error.message) from error
    if done.returncode:
        said = done.stderr.strip() or f"exit {done.returncode}"
        why, hint = _STATUS.get(done.returncode, (said, ""))
        raise CredentialError(f"munge credential: {why}", hint)
    return done
