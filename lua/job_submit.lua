-- hpcmgr's shim for slurmctld (JobSubmitPlugins=lua), beside slurm.conf.
--
-- A site without a script of its own uses this file as it is. A site with one puts the five lines
-- at the very end of it, after its slurm_job_submit and slurm_job_modify: behind() puts hpcmgr
-- last on submit, so that it sees what the site's function made of the request, and first on
-- modify, so that it judges the user's edit and not the site's. By hand that would be
--
--     slurm_job_submit = function(job, partitions, uid)
--         local rc = site_submit(job, partitions, uid)    -- in pcall: a Lua error here is taken
--         if rc ~= slurm.SUCCESS then return rc end       -- for success by Slurm up to 25.11
--         return hpcmgr.submit(job, partitions, uid)
--     end
--
-- configure{} takes, with these defaults:
--     socket       = "/run/hpcmgr/submit.sock"   where `hpcmgr serve` listens
--     limit_ms     = 50                          for connect, send and receive together
--     breaker_s    = 10                          no call for this long after a failed one
--     away         = "hold"                      or "reject": what a request in neutral units
--                                                becomes while the service cannot answer
--     accelerators = {"gpu", "npu"}              every GRES name that the device profiles use
--     neutral      = {"compute", "vram"}         units first, memory second
--     admin_uids   = {0}                         may modify everything, as may
--     slurm_user   = "slurm"                     (a name of /etc/passwd, or a uid)
--
-- slurmctld reads its script again when this file changes, not when a module does: touch this file
-- (or `scontrol reconfigure`) after an upgrade.

local here = debug.getinfo(1, "S").source:match("^@(.*/)") or "/etc/slurm/"
package.path = here .. "?.lua;/etc/slurm/?.lua;/usr/share/hpcmgr/lua/?.lua;" .. package.path
local hpcmgr = require("hpcmgr.submit")
hpcmgr.configure{}
slurm_job_submit, slurm_job_modify = hpcmgr.behind(slurm_job_submit, slurm_job_modify)
