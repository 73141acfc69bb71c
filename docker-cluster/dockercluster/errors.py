"""What can go wrong, in words for the person who started the cluster."""

from __future__ import annotations


class DockerClusterError(Exception):
    """The common base: catching it catches all that this package raises on purpose."""


class NoDocker(DockerClusterError):
    """No Docker daemon answers and none can be started; the message says why and what to do."""


class StartError(DockerClusterError):
    """The image could not be made, or the cluster did not come up."""
