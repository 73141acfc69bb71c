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

local function names(job, words)
    for _, name in ipairs(fields.NAMING) do
        local text = job[name]
        if type(text) == "string" and fields.names_any(text, words) then
            return name
        end
    end
end

-- Why an update by user uid is refused ("units", "devices", "managed", "release", "refused" or
-- "hold") with the field, or nil. Units given by an update would run without a device; devices, without their units.
function modify.fault(job, record, uid, neutral, accelerators)
    local name = names(job, neutral)
    if name then
        return "units", name
    end
    local comment = record.admin_comment
    if type(comment) ~= "string" or comment:sub(1, 7) ~= "hpcmgr:" then
        name = names(job, accelerators)
        return name and "devices", name
    end
    for _, managed in ipairs(MANAGED) do
        if fields.is_set(job, managed) then
            return "managed", managed
        end
    end
    -- Nodes that cannot serve the job are in it; where hpcmgr put none there, it is its owner's.
    if comment:find('"avoids":true', 1, true) and fields.is_set(job, "exc_nodes") then
        return "managed", "exc_nodes"
    end
    if not fields.is_set(job, "priority") then
        return
    end
    -- What a user wrote stands in the record too, but JSON escapes its quotes.
    local refused = comment:find('"state":"refused"', 1, true)
    if not refused and not comment:find('"state":"unbound"', 1, true) then
        return
    end
    if job.priority ~= 0 then
        return refused and "refused" or "release", "priority"
    end
    -- Its owner's hold of a job that is held leaves no trace in it, anybody else's does.
    if record.user_id == nil or record.user_id == uid then
        return "hold", "priority"
    end
end

return modify
