-- slurm_job_modify: what users may not change in a job whose devices hpcmgr chose.
--
-- slurmctld holds its write locks here, and the service's own updates come by: never a call, only
-- a look at the update and at the record of the job.

local fields = require("hpcmgr.fields")

local modify = {}

-- What an answer may set; and memory per CPU, which is Slurm's same field as memory per node.
local MANAGED = {
    "tres_per_node", "tres_per_job", "tres_per_socket", "tres_per_task", "cpus_per_tres",
    "mem_per_tres", "features", "num_tasks", "cpus_per_task", "pn_min_cpus", "min_cpus",
    "min_mem_per_node", "min_mem_per_cpu", "sockets_per_node", "ntasks_per_tres",
}

-- Why a user's update is refused ("units", "managed" or "release") with the field, or nil.
function modify.fault(job, record, neutral)
    for _, list in ipairs({ fields.REQUESTS, fields.PER_TRES }) do
        for _, name in ipairs(list) do
            local text = job[name]
            if type(text) == "string" and fields.names_any(text, neutral) then
                return "units", name
            end
        end
    end
    local comment = record.admin_comment
    if type(comment) ~= "string" or comment:sub(1, 7) ~= "hpcmgr:" then
        return nil
    end
    for _, name in ipairs(MANAGED) do
        if fields.is_set(job, name) then
            return "managed", name
        end
    end
    -- What a user wrote stands in the record too, but JSON escapes its quotes.
    if comment:find('"state":"unbound"', 1, true)
        and fields.is_set(job, "priority") and job.priority ~= 0 then
        return "release", "priority"
    end
end

return modify
