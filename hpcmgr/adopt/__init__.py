"""A site's own files read node by node, beside what was discovered: how to move over."""

from hpcmgr.adopt.report import AdoptReport, Move, NodeReport, adopt

__all__ = ["AdoptReport", "Move", "NodeReport", "adopt"]
