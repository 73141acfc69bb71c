"""Device profiles: how a model is recognised and what Slurm and jobs should see of it."""

from hpcmgr.profile.library import ProfileLibrary, load_library
from hpcmgr.profile.model import DeviceProfile, DriverRule, Gres, Match, Peak, Slicing, Visible

__all__ = [
    "DeviceProfile",
    "DriverRule",
    "Gres",
    "Match",
    "Peak",
    "ProfileLibrary",
    "Slicing",
    "Visible",
    "load_library",
]
