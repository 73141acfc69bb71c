"""What the cluster has and what of it is free, in devices, units and device memory."""

from hpcmgr.capacity.count import Capacity, count
from hpcmgr.capacity.picture import Picture, make_picture, take
from hpcmgr.capacity.scope import Scope
from hpcmgr.capacity.tally import Tally
from hpcmgr.capacity.view import as_data

__all__ = ["Capacity", "Picture", "Scope", "Tally", "as_data", "count", "make_picture", "take"]
