"""What is said where a light cluster cannot run."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from typing import Any

import pytest

from lightcluster import needs
from lightcluster.errors import NeedsError

DEBIAN = needs.Machine(
    platform="linux",
    uid=0,
    os_release={"ID": "debian", "VERSION_ID": "12", "PRETTY_NAME": "Debian 12"},
    which=lambda tool: f"/usr/bin/{tool}",
    keyring=True,
    namespaces=True,
    overlay=True,
    cgroup_versions=(1,),
    can_mknod=True,
)
ALMA = {"ID": "almalinux", "VERSION_ID": "9.4", "PRETTY_NAME": "AlmaLinux 9.4"}


def test_another_system_than_linux_is_refused() -> None:
    """There are no namespaces elsewhere."""
    with pytest.raises(NeedsError, match=r"this is darwin\. Run it in a Linux virtual machine"):
        needs.refuse_hopeless("darwin", 0)


def test_an_ordinary_user_is_told_to_become_root() -> None:
    """Mounts and device nodes need root."""
    with pytest.raises(NeedsError, match=r"run it as root \(sudo\)"):
        needs.refuse_hopeless("linux", 1000)


def test_missing_programs_are_named_by_their_packages() -> None:
    """Several programs of one package are one package."""
    bare = replace(DEBIAN, which=lambda tool: None, keyring=False)

    assert needs.missing_packages(DEBIAN) == []
    assert needs.missing_packages(bare) == [
        "debian-archive-keyring", "iproute2", "mmdebstrap", "util-linux",
    ]  # fmt: skip


def test_elsewhere_than_on_debian_nothing_is_installed() -> None:
    """The message names packages and system."""
    with pytest.raises(NeedsError, match=r"needs mmdebstrap, and AlmaLinux 9\.4 is not Debian 12"):
        needs.install(["mmdebstrap"], replace(DEBIAN, os_release=ALMA))


def test_on_debian_missing_packages_are_installed_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """apt-get update comes first: package lists may be old."""
    calls: list[list[str]] = []

    def run(argv: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        calls.append(argv)
        return subprocess.CompletedProcess(argv, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)

    needs.install(["mmdebstrap"], DEBIAN)

    assert [argv[2] for argv in calls] == ["update", "install"]
    assert calls[1][-1] == "mmdebstrap"
    assert "installing mmdebstrap with apt-get" in capsys.readouterr().err


def test_what_apt_says_reaches_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """No network, for one."""
    failed = subprocess.CompletedProcess([], 100, "", "E: no network\n")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)

    with pytest.raises(NeedsError, match="apt-get -qq update failed: E: no network"):
        needs.install(["mmdebstrap"], DEBIAN)


@pytest.mark.parametrize(
    ("lack", "words"),
    [
        ({"namespaces": False}, "add CAP_SYS_ADMIN"),
        ({"overlay": False}, "no overlayfs"),
        ({"cgroup_versions": ()}, "devices controller"),
        ({"can_mknod": False}, "--device-cgroup-rule"),
    ],
)
def test_what_the_kernel_withholds_is_said_with_a_way_out(lack: dict[str, Any], words: str) -> None:
    """Each lack has its own words; a good machine has none."""
    (problem,) = needs.kernel_problems(replace(DEBIAN, **lack))

    assert words in problem
    assert needs.kernel_problems(DEBIAN) == []


def test_this_machine_can_be_described_without_its_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without util-linux is a finding, not a traceback."""
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(shutil, "which", lambda _: None)

    here = needs.machine()

    assert not here.namespaces
    assert not here.can_mknod
