"""What can go wrong, in words for the person who started the cluster.

LightClusterError
├── NeedsError      this machine cannot run a light cluster
├── RootfsError     the root file system could not be built
├── StartError      the cluster or one of its daemons did not start
├── CommandError    a command that had to succeed did not
└── WaitError       something did not happen in time
"""

from __future__ import annotations


class LightClusterError(Exception):
    """The common base: catching it catches all that this package raises on purpose."""


class NeedsError(LightClusterError):
    """This machine lacks something; the message says what, and what to do."""


class RootfsError(LightClusterError):
    """The root file system of a release could not be built."""


class StartError(LightClusterError):
    """The cluster or one of its daemons did not start."""


class CommandError(LightClusterError):
    """A command inside the cluster failed although it had to succeed."""


class WaitError(LightClusterError):
    """A condition did not come true within its limit."""
