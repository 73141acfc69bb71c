"""What the cluster has and what of it is free, in devices, units and device memory."""

from hpcmgr.capacity.count import Capacity, count
from hpcmgr.capacity.picture import Picture, Rules, make_picture, take
from hpcmgr.capacity.scope import Scope, Viewer
from hpcmgr.capacity.tally import Tally
from hpcmgr.capacity.view import as_data

__all__ = [
    "Capacity",
    "Picture",
    "Rules",
    "Scope",
    "Tally",
    "Viewer",
    "as_data",
    "count",
    "make_picture",
    "take",
]
