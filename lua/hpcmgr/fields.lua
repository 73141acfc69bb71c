-- What the shim reads from job_desc, what it may write there, and how it tells GRES requests apart.
--
-- job_desc is a proxy: an unset string reads as nil, an unset number as NO_VAL of its width, and
-- writing nil raises. Everything here reads only, but for write().

local fields = {}

local UNSET = { [16] = 65534, [32] = 4294967294, [64] = 18446744073709551614 }

-- Where a request for GRES can stand (`gres` is the name of the first for writing), and where GRES
-- are named beside one.
fields.REQUESTS = { "tres_per_node", "tres_per_job", "tres_per_socket", "tres_per_task" }
fields.PER_TRES = { "cpus_per_tres", "mem_per_tres" }
local NAMING = {
    "tres_per_node", "tres_per_job", "tres_per_socket", "tres_per_task", "cpus_per_tres",
    "mem_per_tres",
}
fields.NAMING = NAMING

-- user_name is one more: see there.
local STRINGS = {
    "account", "array_inx", "comment", "cpus_per_tres", "default_account", "exc_nodes", "features",
    "mem_per_tres", "partition", "qos", "req_nodes", "reservation", "tres_per_job",
    "tres_per_node", "tres_per_socket", "tres_per_task",
}

-- The width says which NO_VAL means "unset". The priority is 0 where the user asked for --hold.
local NUMBERS = {
    bitflags = 64, cores_per_socket = 16, cpus_per_task = 16, het_job_offset = 32, max_nodes = 32,
    min_cpus = 32, min_mem_per_cpu = 64, min_mem_per_node = 64, min_nodes = 32,
    ntasks_per_node = 16, ntasks_per_socket = 16, ntasks_per_tres = 16, num_tasks = 32,
    pn_min_cpus = 16, priority = 32, shared = 16, sockets_per_node = 16, threads_per_core = 16,
    time_limit = 32, user_id = 32,
}

-- The only fields an answer may set. Order matters to nobody but a reader of the log.
local WRITABLE_STRINGS = {
    "gres", "tres_per_job", "tres_per_socket", "tres_per_task", "cpus_per_tres", "mem_per_tres",
    "features", "exc_nodes", "admin_comment",
}
local WRITABLE_NUMBERS = {
    "sockets_per_node", "num_tasks", "cpus_per_task", "pn_min_cpus", "min_cpus",
    "min_mem_per_node", "ntasks_per_tres", "req_switch",
}
local STRING_LIMIT = 1024      -- Slurm's own for these fields; admin_comment has none
local NODES_LIMIT = 16384      -- and more for lists of nodes
local NUMBER_LIMIT = 2147483648

local function set_of(list)
    local set = {}
    for _, name in ipairs(list) do
        set[name] = true
    end
    return set
end

local IS_WRITABLE_STRING = set_of(WRITABLE_STRINGS)
local IS_WRITABLE_NUMBER = set_of(WRITABLE_NUMBERS)
local IS_TRES = set_of({ "gres", "tres_per_job", "tres_per_socket", "tres_per_task" })

fields.CLEAR_NTASKS_PER_TRES = UNSET[16]
fields.set_of = set_of

local function string_of(job, name)
    local value = job[name]
    if type(value) == "string" and value ~= "" then
        return value
    end
end

local function number_of(job, name)
    local value = job[name]
    if type(value) == "number" and value == value and value ~= UNSET[NUMBERS[name]] then
        return value
    end
end

-- In an update every value that is there counts: an empty string clears the field.
function fields.is_set(job, name)
    if NUMBERS[name] then
        return number_of(job, name) ~= nil
    end
    return job[name] ~= nil
end

local NO_GRES = set_of({ "cpu", "mem", "license", "licenses" })

-- Items of "gres/gpu:a100:2,gres/compute:8". Releases, clients and REST differ in prefix,
-- separator and case, and Slurm is lenient itself: what could be read as a name is taken for one.
-- `parts` is what follows the name, split at ":" and "="; `other` marks a TRES that is no GRES.
function fields.items(text)
    local items = {}
    for piece in text:gmatch("[^,]+") do
        local rest, gres = piece:gsub("^[^%w]+", ""), false
        while true do
            local tail = rest:match("^[Gg][Rr][Ee][Ss][^%w_%.%-]+(.*)$")
            if not tail then
                break
            end
            rest, gres = tail:gsub("^[^%w]+", ""), true
        end
        local name = rest:match("^[%w_%.%-]+") or ""
        local parts = {}
        for part in rest:sub(#name + 1):gsub("%s+$", ""):gmatch("[:=]([^:=]*)") do
            parts[#parts + 1] = part
        end
        name = name:lower()
        local other = not gres and NO_GRES[name]
        items[#items + 1] = { text = piece, name = name, parts = parts, other = other }
    end
    return items
end

-- Whether one of `names` is requested in `text`: as a whole name, never as a part or a type.
function fields.names_any(text, names)
    for _, item in ipairs(fields.items(text)) do
        if names[item.name] then
            return true
        end
    end
    return false
end

-- "neutral" (neutral units stand in it), "direct" (accelerators only) or nil (nothing of ours).
-- Every submission of the site pays for this: no more than the reads, where they find nothing.
function fields.kind_of(job, neutral, accelerators)
    local kind
    for i = 1, #NAMING do
        local text = job[NAMING[i]]
        if type(text) == "string" and text ~= "" then
            for _, item in ipairs(fields.items(text)) do
                if neutral[item.name] then
                    return "neutral"
                end
                if accelerators[item.name] then
                    kind = "direct"
                end
            end
        end
    end
    -- Slurm makes GPUs of its own out of --ntasks-per-gpu where none are asked for.
    local per_gpu = job.ntasks_per_tres
    if not kind and type(per_gpu) == "number" and per_gpu > 0 and per_gpu ~= UNSET[16] then
        kind = "direct"
    end
    return kind
end

-- slurmctld asks the system for the name at each read, on many sites another machine: once a user
-- is enough, until the script is loaded anew.
local user_names = {}

local function user_name(job)
    local uid = number_of(job, "user_id")
    if uid and not user_names[uid] then
        user_names[uid] = string_of(job, "user_name")
    end
    return user_names[uid]
end

-- The job as the service gets it: set fields only.
function fields.collect(job)
    local request = { batch = job.script ~= nil, user_name = user_name(job) }
    for _, name in ipairs(STRINGS) do
        request[name] = string_of(job, name)
    end
    for name in pairs(NUMBERS) do
        request[name] = number_of(job, name)
    end
    return request
end

local function string_fault(key, value)
    if type(value) ~= "string" then
        return key .. " is no string"
    end
    if key == "admin_comment" then
        -- slurm_job_modify knows the jobs it guards by this.
        if value ~= "" and value:sub(1, 7) ~= "hpcmgr:" then
            return "admin_comment does not start with hpcmgr:"
        end
    elseif #value > (key == "exc_nodes" and NODES_LIMIT or STRING_LIMIT) then
        return key .. " is too long"
    end
    if value:find("%c") then
        return key .. " holds a control character"
    end
    if key == "gres" and value:lower():find("gres[/:]") then
        return "gres holds a prefix"        -- Slurm adds its release's own
    end
end

local function number_fault(key, value)
    if type(value) ~= "number" or value ~= value or value < 0 or value >= NUMBER_LIMIT
        or value % 1 ~= 0 then
        return key .. " is no whole number between 0 and 2^31-1"
    end
    if NUMBERS[key] == 16 and value >= UNSET[16]
        and not (key == "ntasks_per_tres" and value == UNSET[16]) then
        return key .. " does not fit its field"
    end
end

-- The answer's `set` as a list of {name, value} to write, or nil and what is wrong with it.
function fields.writes_of(set)
    if type(set) ~= "table" then
        return nil, "set is no object"
    end
    for key, value in pairs(set) do
        local fault
        if IS_WRITABLE_STRING[key] then
            fault = string_fault(key, value)
        elseif IS_WRITABLE_NUMBER[key] then
            fault = number_fault(key, value)
        else
            fault = "it sets " .. tostring(key):sub(1, 64)
        end
        if fault then
            return nil, fault
        end
    end
    local writes = {}
    for _, list in ipairs({ WRITABLE_STRINGS, WRITABLE_NUMBERS }) do
        for _, key in ipairs(list) do
            if set[key] ~= nil then
                writes[#writes + 1] = { key, set[key] }
            end
        end
    end
    return writes
end

-- What is wrong with `set` as the fate of `request`, or nil. Units without a device would run
-- anywhere: a rewrite must ask for an accelerator, and must replace every field that held units.
function fields.rewrite_fault(request, set, kind, neutral, accelerators)
    local touched, device = kind == "neutral", false
    for key in pairs(set) do
        touched = touched or IS_TRES[key] or false
    end
    if not touched then
        return nil
    end
    for _, name in ipairs(fields.REQUESTS) do
        local key = name == "tres_per_node" and "gres" or name
        local before, after = request[name], set[key]
        if before and after == nil and fields.names_any(before, neutral) then
            return name .. " is not rewritten"
        end
        for _, item in ipairs(fields.items(after or before or "")) do
            device = device or accelerators[item.name] and item.parts[#item.parts] ~= "0"
            local count = #item.parts == 1 and item.parts[1] or ""
            if neutral[item.name] and not count:find("^[1-9]%d*$") then
                return name .. " holds units that are not booked by a plain count"
            end
        end
    end
    for _, name in ipairs(fields.PER_TRES) do
        local after = set[name] or request[name]
        if after and fields.names_any(after, neutral) then
            return name .. " still names neutral units"
        end
    end
    if not device then
        return "it asks for no accelerator"
    end
end

-- The count for "compute:unbound:N", or nil if a count in the request is plainly invalid.
function fields.held_count(request, units, memory)
    local held
    for _, name in ipairs(fields.REQUESTS) do
        for _, item in ipairs(fields.items(request[name] or "")) do
            local parts = item.parts
            -- A type begins with a letter, whatever else stands there is meant as a count.
            local typed = parts[1] and parts[1]:find("^%a") and 1 or 0
            local count = parts[1 + typed]
            if item.name == memory then
                if count and (count:find("^%-") or not count:find("[1-9]")) then
                    return nil
                end
            elseif item.name == units then
                local value = 1
                if #parts > 1 + typed then
                    return nil
                end
                if count then
                    local digits, suffix = count:match("^(%d+)([KMGTPkmgtp]?)[Ii]?[Bb]?$")
                    value = tonumber(digits or "0")
                    if value == 0 then
                        return nil
                    end
                    if suffix ~= "" then
                        value = value * 1024 ^ (("kmgtp"):find(suffix:lower(), 1, true))
                    end
                    if value >= NUMBER_LIMIT then
                        value = 1
                    end
                end
                if name == "tres_per_node" then
                    held = held or value
                end
            end
        end
    end
    return held or 1
end

-- What holds a request as unbound: a type that no node has keeps it from running even if someone
-- releases it. CPU and licence items of tres_per_task are none of ours and stay.
function fields.hold_writes(request, gres, admin_comment)
    local writes = { { "gres", gres } }
    for _, name in ipairs({ "tres_per_job", "tres_per_socket", "tres_per_task",
                            "cpus_per_tres", "mem_per_tres" }) do
        if request[name] then
            local kept = {}
            for _, item in ipairs(fields.items(request[name])) do
                if item.other and name == "tres_per_task" then
                    kept[#kept + 1] = item.text
                end
            end
            writes[#writes + 1] = { name, table.concat(kept, ",") }
        end
    end
    if request.ntasks_per_tres then
        writes[#writes + 1] = { "ntasks_per_tres", fields.CLEAR_NTASKS_PER_TRES }
    end
    writes[#writes + 1] = { "priority", 0 }
    writes[#writes + 1] = { "admin_comment", admin_comment }
    return writes
end

function fields.write(job, writes)
    for _, pair in ipairs(writes) do
        job[pair[1]] = pair[2]
    end
end

local ESCAPES = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }

-- Bytes that are no UTF-8 would make the whole line unreadable to the service.
local function clean_utf8(text)
    local out, i = {}, 1
    while i <= #text do
        local a, b, c, d = text:byte(i, i + 3)
        local function tail(byte)
            return byte and byte >= 128 and byte < 192
        end
        local length = 0
        if a < 128 then
            length = 1
        elseif a >= 194 and a < 224 and tail(b) then
            length = 2
        elseif a >= 224 and a < 240 and tail(b) and tail(c)
            and not (a == 224 and b < 160) and not (a == 237 and b >= 160) then
            length = 3
        elseif a >= 240 and a < 245 and tail(b) and tail(c) and tail(d)
            and not (a == 240 and b < 144) and not (a == 244 and b >= 144) then
            length = 4
        end
        out[#out + 1] = length > 0 and text:sub(i, i + length - 1) or "?"
        i = i + math.max(length, 1)
    end
    return table.concat(out)
end

local function json_string(text)
    if text:find('[%c"\\\128-\255]') then
        text = clean_utf8(text):gsub('[%c"\\]', function(char)
            return ESCAPES[char] or ("\\u%04x"):format(char:byte())
        end)
    end
    return '"' .. text .. '"'
end

local ORDER = { "batch", "user_name" }
for _, name in ipairs(STRINGS) do
    ORDER[#ORDER + 1] = name
end
for name in pairs(NUMBERS) do
    ORDER[#ORDER + 1] = name
end
table.sort(ORDER)

-- What collect() gave as JSON; own, so that a job can be held even where lua-cjson is missing.
function fields.json(request)
    local out = {}
    for _, name in ipairs(ORDER) do
        local value = request[name]
        if type(value) == "string" then
            out[#out + 1] = '"' .. name .. '":' .. json_string(value)
        elseif type(value) == "number" then
            out[#out + 1] = ('"%s":%.0f'):format(name, value)
        elseif value ~= nil then
            out[#out + 1] = '"' .. name .. '":' .. tostring(value)
        end
    end
    return "{" .. table.concat(out, ",") .. "}"
end

return fields
