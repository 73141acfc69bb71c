-- hpcmgr in slurmctld: hand a request for accelerators to the service, apply its answer.
--
-- Reads and the call come first, writes last and all together. Slurm up to 25.11 takes a Lua error
-- for consent, later releases for refusal; so nothing is left to it: every fault ends here, and a
-- request in neutral units is rewritten, held or rejected, never let through as it came.

-- What users read. To translate, change it here.
local TEXT = {
    held = {
        "the service that chooses devices for %s cannot answer now",
        "the job is queued and held (JobHeldUser); it is given its devices and released by itself",
        "do not submit it again, do not release it",
    },
    away = "the service that chooses devices for %s cannot answer now; submit again later",
    count = "the count of %s must be a whole number of 1 or more",
    long = "the request is too long (%d bytes)",
    fault = "internal error in the choice of devices; tell your administrator",
    site = "internal error in the site's job_submit.lua; tell your administrator",
    units = "%s cannot be given in neutral units to a job that exists: cancel it and submit anew",
    devices = "%s would get devices without their units: cancel the job and submit anew",
    managed = "%s is managed by hpcmgr for this job: cancel it and submit anew",
    release = "this job waits for its devices and is released by itself; it can be cancelled",
    refused = "no device can serve this job ('hpcmgr explain' tells why): cancel it",
    hold = "it is held already and is released by itself; cancel it if you do not want it",
}
local MESSAGES_SHOWN = 8

local fields = require("hpcmgr.fields")
local client = require("hpcmgr.client")
local modify = require("hpcmgr.modify")

local hpcmgr = {}

local function log_error(text)
    pcall(slurm.log_error, "%s", "hpcmgr: " .. text)
end

-- Configuration ---------------------------------------------------------------------------------

local function number_in(low, high)
    return function(value)
        return type(value) == "number" and value >= low and value <= high
    end
end

local function list_of(is_good)
    return function(value)
        if type(value) ~= "table" or #value == 0 then
            return false
        end
        for _, item in ipairs(value) do
            if not is_good(item) then
                return false
            end
        end
        return true
    end
end

local function is_name(value)
    return type(value) == "string" and value:find("^%l[%l%d_%.%-]*$") ~= nil
end

local function is_uid(value)
    return number_in(0, 4294967293)(value) and value % 1 == 0
end

local SETTINGS = {
    -- 107 bytes are all that a socket's address holds.
    socket = { "/run/hpcmgr/submit.sock", function(value)
        return type(value) == "string" and value:sub(1, 1) == "/" and #value <= 107
    end },
    limit_ms = { 50, number_in(1, 1000) },
    breaker_s = { 10, number_in(0, 3600) },
    away = { "hold", function(value)
        return value == "hold" or value == "reject"
    end },
    accelerators = { { "gpu", "npu" }, list_of(is_name) },
    neutral = { { "compute", "vram" }, list_of(is_name) },
    admin_uids = { { 0 }, list_of(is_uid) },
    slurm_user = { "slurm", function(value)
        return is_uid(value) or type(value) == "string" and value ~= ""
    end },
}

-- The uid of a user of /etc/passwd; users from elsewhere are given by number.
local function uid_of(user)
    if tonumber(user) then
        return tonumber(user)
    end
    local passwd = io.open("/etc/passwd")
    if not passwd then
        return nil
    end
    local uid
    for line in passwd:lines() do
        local name, number = line:match("^([^:]+):[^:]*:(%d+):")
        if name == user then
            uid = tonumber(number)
            break
        end
    end
    passwd:close()
    return uid
end

local config, neutral, accelerators, admins

function hpcmgr.configure(given)
    if type(given) ~= "table" then
        if given ~= nil then
            log_error("configure takes a table, the defaults hold")
        end
        given = {}
    end
    config = {}
    for key, setting in pairs(SETTINGS) do
        local default, is_good = setting[1], setting[2]
        local value = given[key]
        if value ~= nil and not is_good(value) then
            log_error(("bad value of %s, its default holds"):format(key))
            value = nil
        end
        config[key] = value == nil and default or value
    end
    for key in pairs(given) do
        if not SETTINGS[key] then
            log_error(("unknown setting %s"):format(tostring(key)))
        end
    end
    neutral, accelerators = fields.set_of(config.neutral), fields.set_of(config.accelerators)
    admins = fields.set_of(config.admin_uids)
    local slurm_uid = uid_of(config.slurm_user)
    if slurm_uid then
        admins[slurm_uid] = true
    else
        log_error(("slurm_user %s is not in /etc/passwd: give its uid"):format(config.slurm_user))
    end
    local missing = client.missing()
    if missing then
        log_error(missing .. ": the service counts as away")
    end
end

-- Submission ------------------------------------------------------------------------------------

local function tell(text)
    -- Control characters could drive the user's terminal; those above 127 are C1 in UTF-8.
    local line = tostring(text):gsub("%c", " "):gsub("\194[\128-\159]", " ")
    slurm.log_user("%s", line)
end

local function reject(text)
    pcall(tell, text)
    return slurm.ESLURM_INVALID_GRES or slurm.ERROR or -1
end

-- Marks that writing has begun: a fault after that leaves a half-written job, which must not pass.
local function write(job, case, writes)
    case.writing = true
    fields.write(job, writes)
end

local last_trace = 0

local function new_trace()
    last_trace = math.max(last_trace + 1, math.floor(client.now() * 1e6))
    return ("s-%x"):format(last_trace)
end

-- The job as the service gets it and its record keeps it, read once; nil if it is too long for both.
local function describe(job, case)
    if not case.json then
        case.request = fields.collect(job)
        case.json = fields.json(case.request)
    end
    return #case.json <= client.LINE_LIMIT - 100 and case.json or nil
end

-- The service cannot decide: a direct request has its devices, one in neutral units has none.
local function away(job, case, reason)
    if case.kind == "direct" then
        return slurm.SUCCESS
    end
    local units, memory = config.neutral[1], config.neutral[2]
    local names = table.concat(config.neutral, ", ")
    if config.away == "reject" then
        return reject(TEXT.away:format(names))
    end
    local json = describe(job, case)
    if not json then
        return reject(TEXT.long:format(#case.json))
    end
    local count = fields.held_count(case.request, units, memory)
    if not count then
        return reject(TEXT.count:format(names))
    end
    local trace = new_trace()
    local record = ('hpcmgr:{"v":1,"state":"unbound","trace":"%s","request":%s}'):format(trace, json)
    write(job, case,
        fields.hold_writes(case.request, ("%s:unbound:%.0f"):format(units, count), record))
    for _, line in ipairs(TEXT.held) do
        tell(line:format(names))
    end
    slurm.log_verbose("%s", ("hpcmgr: held as unbound (%s), trace %s, uid %.0f"):format(
        reason, trace, case.uid))
    return slurm.SUCCESS
end

-- What is wrong with the parts of an answer that are not `set`, or nil.
local function answer_fault(answer)
    local message = answer.message
    if message ~= nil then
        if type(message) ~= "table" then
            return "message is no list"
        end
        for _, line in pairs(message) do
            if type(line) ~= "string" then
                return "message is no list of strings"
            end
        end
    end
    if answer.set ~= nil and type(answer.set) ~= "table" then
        return "set is no object"
    end
    if answer.error ~= nil and (type(answer.error) ~= "string" or answer.error == "") then
        return "error is no text"
    end
    for _, key in ipairs({ "enforce_binding", "pass", "hold" }) do
        if answer[key] ~= nil and type(answer[key]) ~= "boolean" then
            return key .. " is no boolean"
        end
    end
end

-- The writes of an answer that applies, or nil and why it does not.
local function writes_of(answer, case)
    local set = answer.set or {}
    if answer.pass then
        -- `pass` says "nothing of ours", so it can set nothing, and units are ours.
        if case.kind == "neutral" or answer.set ~= nil and next(set) ~= nil then
            return nil, "it passes a request that it must decide"
        end
        return {}
    end
    local writes, fault = fields.writes_of(set)
    fault = fault or fields.rewrite_fault(case.request, set, case.kind, neutral, accelerators)
    if fault then
        return nil, fault
    end
    if answer.enforce_binding then
        local bit = slurm.GRES_ENFORCE_BIND or 16
        local flags = case.request.bitflags or 0
        if flags % (2 * bit) < bit then
            writes[#writes + 1] = { "bitflags", flags + bit }
        end
    end
    return writes
end

-- What the answer comes to: writes, or a text for the user who is refused, or why it decides
-- nothing and whether that is a fault to log.
local function read_answer(answer, case)
    if answer.error_code ~= nil then
        return nil, nil, "error_code " .. tostring(answer.error_code):sub(1, 64), true
    end
    local fault = answer_fault(answer)
    if fault then
        return nil, nil, fault, true
    end
    if answer.hold then
        return nil, nil, "the service asks for it"
    end
    if answer.error then
        return nil, answer.error
    end
    local writes, reason = writes_of(answer, case)
    return writes, nil, reason, true
end

local function decide(job, case)
    local resting = client.resting(config)
    if resting then
        return away(job, case, resting)
    end
    local json = describe(job, case)
    if not json then
        -- Said here, since the service could only refuse to read it.
        return reject(TEXT.long:format(#case.json))
    end
    local answer, reason = client.ask(config,
        ('{"v":1,"op":"submit","uid":%.0f,"job":%s}\n'):format(case.uid, json))
    if not answer then
        return away(job, case, reason)
    end
    local writes, refusal, why, is_fault = read_answer(answer, case)
    if refusal then
        return reject(refusal)
    end
    if not writes then
        if is_fault then
            log_error(("the answer is not applied (%s), trace %s"):format(
                why, tostring(answer.trace):sub(1, 64)))
        end
        return away(job, case, why)
    end
    write(job, case, writes)
    for i = 1, math.min(#(answer.message or {}), MESSAGES_SHOWN) do
        tell(answer.message[i])
    end
    return slurm.SUCCESS
end

function hpcmgr.submit(job, _, uid)
    local ok, result = pcall(fields.kind_of, job, neutral, accelerators)
    if ok and not result then
        return slurm.SUCCESS
    end
    local case = { uid = uid, kind = ok and result }
    if ok then
        ok, result = pcall(decide, job, case)
    end
    if ok then
        return result
    end
    log_error("fault in the shim: " .. tostring(result))
    if case.writing then
        return reject(TEXT.fault)
    end
    if case.kind then
        ok, result = pcall(away, job, case, "fault in the shim")
        if ok then
            return result
        end
        log_error("fault in the shim: " .. tostring(result))
    end
    return reject(TEXT.fault)
end

-- Update ----------------------------------------------------------------------------------------

function hpcmgr.modify(job, record, _, uid)
    if admins[uid] then
        return slurm.SUCCESS
    end
    local ok, why, name = pcall(modify.fault, job, record, uid, neutral, accelerators)
    if ok and not why then
        return slurm.SUCCESS
    end
    if not ok then
        log_error("fault in the shim: " .. tostring(why))
    end
    pcall(tell, ok and TEXT[why]:format(name) or TEXT.fault)
    return slurm.ERROR or -1
end

-- Beside a site's own functions -----------------------------------------------------------------

-- Runs a site's function; its return code counts as Slurm counts it, its Lua error as a refusal.
local function run(own, ...)
    local ok, rc = pcall(own, ...)
    if not ok then
        log_error("the site's function: " .. tostring(rc))
        return reject(TEXT.site)
    end
    return type(rc) == "number" and rc or slurm.SUCCESS
end

-- slurm_job_submit and slurm_job_modify that run the site's own functions too, where there are any.
function hpcmgr.behind(own_submit, own_modify)
    local function submit(job, partitions, uid)
        if own_submit then
            local rc = run(own_submit, job, partitions, uid)
            if rc ~= slurm.SUCCESS then
                return rc
            end
        end
        return hpcmgr.submit(job, partitions, uid)
    end
    local function update(job, record, partitions, uid)
        local rc = hpcmgr.modify(job, record, partitions, uid)
        if rc ~= slurm.SUCCESS or not own_modify then
            return rc
        end
        return run(own_modify, job, record, partitions, uid)
    end
    return submit, update
end

return hpcmgr
