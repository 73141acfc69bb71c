"""What the cluster has and what of it is free, in devices, units and device memory."""

from hpcmgr.capacity.count import Capacity, count
from hpcmgr.capacity.tally import Tally
from hpcmgr.capacity.view import as_data

__all__ = ["Capacity", "Tally", "as_data", "count"]
