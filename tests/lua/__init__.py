"""The shim under Lua 5.1, without slurmctld."""
