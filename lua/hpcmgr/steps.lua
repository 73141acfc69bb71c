-- Steps in neutral units: `srun --gres=compute:4` inside a job becomes devices of that job.
--
-- In the user's own process, for every srun inside an allocation. Slurm itself would give such a
-- step the count and no device. What one device stands for is told by the TaskProlog
-- (HPCMGR_EACH=gpu:a100:8:80, type, units and GiB); where there was none, as in the shell of
-- salloc, Slurm is asked for the job's request.

-- What users read. To translate, change it here.
local TEXT = {
    count = "%s: the count must be a whole number of 1 or more",
    none = "this job has no accelerators: a step cannot have %s",
    other = "this job has %s: a step cannot have %s",
    several = "this job has %s: name the one that the step shall have, as in --gres=%s:1",
    unknown = "what a device of this job stands for is not known: ask for devices, as in --gres=gpu:1",
    many = "this job has %d %s on a node: %s takes %d",
    task = "a step cannot have neutral units per task: give each step its devices (--gres)",
}

local steps = {}

local SUFFIX = { [""] = 1, K = 1024, M = 1024 ^ 2, G = 1024 ^ 3, T = 1024 ^ 4 }

-- "gres/gpu:a100:2" or "gpu:a100=2" → name, words between, count; count is nil where none is given.
local function item_of(text)
    local words = {}
    for word in text:gsub("^gres[:/]", ""):gsub("=", ":"):gmatch("[^:]+") do
        words[#words + 1] = word
    end
    local name = table.remove(words, 1)
    local number, suffix = (words[#words] or ""):match("^(%d+)(%a?)[Bb]?$")
    local count
    if number and SUFFIX[suffix:upper()] then
        count = tonumber(number) * SUFFIX[suffix:upper()]
        table.remove(words)
    end
    return name, words, count
end

local function is_neutral(name)
    return name == "compute" or name == "vram"
end

-- Whether a list of GRES asks for neutral units.
function steps.concerns(gres)
    for item in (gres or ""):gmatch("[^,]+") do
        if is_neutral((item_of(item))) then
            return true
        end
    end
    return false
end

-- HPCMGR_EACH → list of {gres, units, vram}.
function steps.from_prolog(each)
    local held = {}
    for item in (each or ""):gmatch("[^,]+") do
        local gres, units, vram = item:match("^([^:]+:[^:]+):([%d-]+):([%d-]+)$")
        if gres then
            held[#held + 1] = { gres = gres, units = tonumber(units), vram = tonumber(vram) }
        end
    end
    return held
end

-- The job's request in Slurm's words → the same, with the number of devices on a node. Units and
-- memory of a device are known where the job has devices of one type.
function steps.from_request(tres)
    local held, units, vram = {}, nil, nil
    for text in (tres or ""):gmatch("[^,%s]+") do
        local name, words, count = item_of(text)
        if name == "compute" then
            units = count
        elseif name == "vram" then
            vram = count
        elseif name and #words == 1 and count then
            held[#held + 1] = { gres = name .. ":" .. words[1], count = count }
        end
    end
    if #held == 1 and held[1].count > 0 then
        held[1].units = units and units / held[1].count
        held[1].vram = vram and vram / held[1].count
    end
    return held
end

local function names(held)
    local list = {}
    for _, device in ipairs(held) do
        list[#list + 1] = device.gres
    end
    return table.concat(list, " and ")
end

-- The devices meant by the words of the request ("gpu", "a100"); a word that is none of theirs (a
-- class, a vendor) says nothing about a step.
local function chosen(held, words)
    local fitting = {}
    for _, device in ipairs(held) do
        for _, word in ipairs(words) do
            if device.gres:match("^([^:]+)") == word or device.gres:match(":(.+)$") == word then
                fitting[#fitting + 1] = device
                break
            end
        end
    end
    return #fitting > 0 and fitting or held
end

local function devices_for(amount, each)
    if not amount then
        return 0
    end
    return each and each > 0 and math.ceil(amount / each) or nil
end

-- A step's list of GRES with devices in place of neutral units; nil and the text for the user if
-- that cannot be. Counts are per node, as those of --gres.
function steps.translate(gres, held)
    local kept, wanted, words = {}, {}, {}
    for text in gres:gmatch("[^,]+") do
        local name, between, count = item_of(text)
        if is_neutral(name) then
            if not count or count < 1 then
                return nil, TEXT.count:format(text)
            end
            local key = between[1] == "each" and "each" or name
            wanted[key] = count >= 1024 ^ 3 and name == "vram" and count / 1024 ^ 3 or count
            if name == "compute" then
                words = between
            end
        else
            kept[#kept + 1] = (text:gsub("^gres[:/]", ""))
        end
    end
    if #held == 0 then
        return nil, TEXT.none:format(gres)
    end
    local fitting = chosen(held, words)
    if #fitting > 1 then
        return nil, TEXT.several:format(names(fitting), fitting[1].gres)
    end
    local device = fitting[1]
    local by_units = devices_for(wanted.compute, device.units)
    local by_memory = devices_for(wanted.vram, device.vram)
    if not by_units or not by_memory then
        return nil, TEXT.unknown
    end
    if wanted.each and device.vram and device.vram < wanted.each then
        return nil, TEXT.other:format(device.gres, gres)
    end
    local count = math.max(1, by_units, by_memory)
    if device.count and count > device.count then
        return nil, TEXT.many:format(device.count, device.gres, gres, count)
    end
    kept[#kept + 1] = ("%s:%d"):format(device.gres, count)
    return table.concat(kept, ",")
end

-- What the job asked for, by squeue: fields without free text.
local function asked_slurm(job)
    local pipe = io.popen("squeue -h -j " .. job .. " -O tres-per-node:1100,tres-per-socket:256 2>&1")
    local text = pipe and pipe:read("*a") or ""
    if pipe then
        pipe:close()
    end
    return steps.from_request((text:gsub("N/A", "")))
end

-- slurm_cli_pre_submit: SUCCESS, or ERROR with the reason told.
function steps.pre_submit(options)
    local job = os.getenv("SLURM_JOB_ID")
    if options.type ~= "srun" or not (job and job:find("^%d+$")) then
        return slurm.SUCCESS
    end
    -- A job with units per task hands its request on to its steps: there the devices stand beside.
    local per_task = options["tres-per-task"]
    if per_task ~= os.getenv("SLURM_TRES_PER_TASK") and steps.concerns(per_task) then
        slurm.log_error("%s", TEXT.task)
        return slurm.ERROR
    end
    if not steps.concerns(options.gres) then
        return slurm.SUCCESS
    end
    local held = steps.from_prolog(os.getenv("HPCMGR_EACH"))
    if #held == 0 then
        held = asked_slurm(job)
    end
    local gres, why = steps.translate(options.gres, held)
    if not gres then
        slurm.log_error("%s", why)
        return slurm.ERROR
    end
    options.gres = gres
    return slurm.SUCCESS
end

-- A filter that the site has already goes first.
function steps.behind(site)
    return function(options, offset)
        if site then
            local rc = site(options, offset)
            if type(rc) == "number" and rc ~= slurm.SUCCESS then
                return rc
            end
        end
        local ok, rc = pcall(steps.pre_submit, options)
        if not ok then
            slurm.log_error("%s", "hpcmgr: internal error in cli_filter.lua: " .. tostring(rc))
            return slurm.ERROR
        end
        return rc
    end
end

return steps
