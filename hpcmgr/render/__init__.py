"""Plan → text. Pure and byte-stable: no time stamps, equal plan, equal bytes."""

from hpcmgr.render.cluster_files import render_cluster
from hpcmgr.render.node_files import render_node

__all__ = ["render_cluster", "render_node"]
