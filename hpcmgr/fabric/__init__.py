"""The network between the nodes: what scans of it say, and what tree and blocks that makes.

ibnetdiscover, lldp, nvlink   what one source prints → model.Seen
join                          all sources → model.Scan, the file that site.yaml names
complete                      whether the scan may be believed
rails, tree, plan             the scan and the rules of site.yaml → what Slurm is told
"""

from hpcmgr.fabric.model import Scan, load_scan
from hpcmgr.fabric.plan import FabricPlan, block_sizes, plan_fabric

__all__ = ["FabricPlan", "Scan", "block_sizes", "load_scan", "plan_fabric"]
