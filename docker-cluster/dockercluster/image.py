"""The image: the light cluster's root file system as it is, or the same built by Docker.

The project itself is not in it: the checkout is bound at /opt/hpcmgr, so a change of code needs no
new image.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import docker
from docker.errors import BuildError, DockerException, ImageNotFound

from dockercluster.composefile import CHECKOUT, HERE
from dockercluster.errors import StartError
from lightcluster import needs, recipe, rootfs
from lightcluster.errors import LightClusterError

REPOSITORY = "hpcmgr-cluster"
_LABEL = "hpcmgr.recipe"


def ensure(client: docker.DockerClient, release: str) -> str:
    """The name of the image with this Slurm release; made first if it is missing or outdated.

    Raises:
        StartError: it cannot be made.
    """
    tag = f"{REPOSITORY}:{release}"
    key = recipe.key(release)
    try:
        if client.images.get(tag).labels.get(_LABEL) == key:
            return tag
    except ImageNotFound:
        pass
    tree = _root_tree(release, key)
    try:
        if tree is not None:
            _import(client, tree, release, key)
        else:
            _build(client, tag, release, key)
    except (DockerException, BuildError) as error:
        raise StartError(f"the image {tag} cannot be made: {error}") from error
    return tag


def _root_tree(release: str, key: str) -> Path | None:
    """The cached tree, or a new one where this machine can make it; root alone can read it."""
    if os.geteuid() != 0:
        return None
    cached = rootfs.cache_dir() / key
    if cached.is_dir():
        return cached
    try:
        needs.ensure()
        return rootfs.ensure(release)
    except LightClusterError as error:
        _say(f"{error}; building the image from Debian's instead")
        return None


def _import(client: docker.DockerClient, tree: Path, release: str, key: str) -> None:
    _say(f"importing the root file system {key} as {REPOSITORY}:{release}")
    argv = ["tar", "--numeric-owner", "-C", str(tree), "-c", "."]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as tar:
        client.api.import_image_from_stream(
            tar.stdout, repository=REPOSITORY, tag=release, changes=[f"LABEL {_LABEL}={key}"]
        )
    if tar.returncode != 0:
        raise StartError(f"tar could not read {tree} (exit {tar.returncode})")
    client.images.get(f"{REPOSITORY}:{release}")


def _build(client: docker.DockerClient, tag: str, release: str, key: str) -> None:
    _say(f"building {tag} from Debian {recipe.suite(release)}, a few minutes, once")
    client.images.build(
        path=str(CHECKOUT / "lightcluster"),
        dockerfile=str(HERE / "Dockerfile"),
        tag=tag,
        buildargs={"SUITE": recipe.suite(release), "PACKAGES": " ".join(recipe.PACKAGES)},
        labels={_LABEL: key},
        network_mode="host",
        rm=True,
        forcerm=True,
    )


def _say(text: str) -> None:
    print(f"docker-cluster: {text}", file=sys.stderr, flush=True)
