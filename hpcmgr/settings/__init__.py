"""site.yaml: what a site decides. Defined once: key, type, default, meaning.

Where it is looked for: ``--config``, ``HPCMGR_CONFIG``, ``/etc/hpcmgr/site.yaml``. One file a
subject;
what a field means stands as a string below it, and docs/site-yaml.md is made from these.
"""

from hpcmgr.settings.classes import DeviceChoice, DeviceGroup, JobClass
from hpcmgr.settings.fabric import Rails, Switch, Topology
from hpcmgr.settings.fields import split_address
from hpcmgr.settings.nodes import NodeGroup
from hpcmgr.settings.ownership import Owned, Owners
from hpcmgr.settings.partitions import SORTS, SitePartition, Sort, word_of
from hpcmgr.settings.service import Weights
from hpcmgr.settings.sharing import Sharing
from hpcmgr.settings.site import Site, load_site, override_fields
from hpcmgr.settings.slurm import Apply

__all__ = [
    "SORTS",
    "Apply",
    "DeviceChoice",
    "DeviceGroup",
    "JobClass",
    "NodeGroup",
    "Owned",
    "Owners",
    "Rails",
    "Sharing",
    "Site",
    "SitePartition",
    "Sort",
    "Switch",
    "Topology",
    "Weights",
    "load_site",
    "override_fields",
    "split_address",
    "word_of",
]
