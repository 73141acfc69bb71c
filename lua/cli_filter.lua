-- hpcmgr's filter for the clients (CliFilterPlugins=lua), beside slurm.conf on every host where
-- srun runs: `srun --gres=compute:4` inside a job gets devices of the job.
--
-- A site without a filter of its own uses this file as it is. A site with one puts the five lines
-- at the very end of it, after its functions. hpcmgr/ must lie beside it or in /usr/share/hpcmgr/lua
-- (a configless cluster hands out this file, not the folder).

local here = debug.getinfo(1, "S").source:match("^@(.*/)") or "/etc/slurm/"
package.path = here .. "?.lua;/etc/slurm/?.lua;/usr/share/hpcmgr/lua/?.lua;" .. package.path
slurm_cli_pre_submit = require("hpcmgr.steps").behind(slurm_cli_pre_submit)
slurm_cli_setup_defaults = slurm_cli_setup_defaults or function() return slurm.SUCCESS end
slurm_cli_post_submit = slurm_cli_post_submit or function() return slurm.SUCCESS end
