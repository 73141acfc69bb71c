-- One question to the service and its answer: socket, time limit, circuit breaker.
--
-- slurmctld holds locks while this runs, so the whole call has one deadline. It is measured here
-- and set anew before each step: LuaSocket's own limit is one of the step, and a service that sends
-- a byte now and then would stretch it. A connection per call: a kept one would be inherited by
-- slurmctld's children and be dead after each restart of the service.

local client = {}

local LINE_LIMIT = 65536
client.LINE_LIMIT = LINE_LIMIT

local have_socket, socket = pcall(require, "socket")
local have_unix, unix = pcall(require, "socket.unix")
local have_json, cjson = pcall(require, "cjson")
if have_json and type(cjson) == "table" and cjson.new then
    cjson = cjson.new()     -- a site script's settings of its own cjson stay its own
end

-- What is missing on this machine, or nil.
function client.missing()
    if not (have_socket and have_unix) then
        return "LuaSocket (package lua-socket) cannot be loaded"
    end
    if not have_json then
        return "lua-cjson (package lua-cjson) cannot be loaded"
    end
end

local function now()
    return socket.gettime()
end

client.now = function()
    return have_socket and now() or os.time()
end

-- A function that says how many seconds are left of `limit`, nil when none are: a negative limit
-- means "for ever" to LuaSocket. The clock is the wall's; if it is set back, the step before is not
-- counted, but nothing of what was counted comes back.
local function deadline(limit)
    local last, rest = now(), limit
    return function()
        local time = now()
        rest = rest - math.max(time - last, 0)
        last = time
        if rest > 0 then
            return rest
        end
    end
end

-- Read up to the end of the line: one byte with a limit, then what is there already. A receive of
-- "*l" would take any amount of memory, one of a number would wait for all of it.
local function read_line(conn, left)
    local chunks, size = {}, 0
    while true do
        local rest = left()
        if not rest then
            return nil, "no answer within the time limit"
        end
        conn:settimeout(rest, "t")
        local chunk, fault = conn:receive(1)
        if fault == "timeout" then
            return nil, "no answer within the time limit"
        elseif fault then
            return nil, "connection " .. tostring(fault) .. " before the end of the answer"
        end
        conn:settimeout(0, "t")
        local more, _, part = conn:receive(LINE_LIMIT)
        chunk = chunk .. (more or part or "")
        size = size + #chunk
        local stop = chunk:find("\n", 1, true)
        chunks[#chunks + 1] = stop and chunk:sub(1, stop - 1) or chunk
        if size > LINE_LIMIT and not (stop and size - #chunk + stop <= LINE_LIMIT) then
            return nil, "an answer of more than 64 KiB"
        end
        if stop then
            return table.concat(chunks)
        end
    end
end

local function exchange(conn, path, line, left)
    conn:settimeout(left() or 0, "t")
    local ok, fault = conn:connect(path)
    if not ok then
        return nil, "connect: " .. tostring(fault)
    end
    local rest = left()
    if not rest then
        return nil, "no connection within the time limit"
    end
    conn:settimeout(rest, "t")
    ok, fault = conn:send(line)
    if not ok then
        return nil, "send: " .. tostring(fault)
    end
    return read_line(conn, left)
end

local function transact(path, line, limit)
    local left = deadline(limit)
    local make = type(unix) == "table" and unix.stream or unix
    local conn, fault = make()
    if not conn then
        return nil, "socket: " .. tostring(fault)
    end
    local ok, answer, reason = pcall(exchange, conn, path, line, left)
    pcall(conn.close, conn)
    if not ok then
        return nil, "fault in the shim: " .. tostring(answer)
    end
    return answer, reason
end

-- The answer as a table without nulls, or nil and why it is none.
local function decode(text)
    local ok, answer = pcall(cjson.decode, text)
    if not ok or type(answer) ~= "table" then
        return nil, "the answer is no JSON object"
    end
    for key, value in pairs(answer) do
        if value == cjson.null then
            answer[key] = nil
        end
    end
    if answer.v ~= 1 then
        return nil, "the answer is not of version 1"
    end
    return answer
end

-- Closed: calls go through. Open: none until the breaker's time is over, then one try.
local opened_at, skipped = nil, 0

-- Why this request makes no call, or nil: asked first, since to describe a request costs more.
function client.resting(config)
    local missing = client.missing()
    if missing or not opened_at then
        return missing
    end
    local waited = now() - opened_at
    if waited >= 0 and waited < config.breaker_s then
        skipped = skipped + 1
        return "no call: the last one failed"
    end
end

-- A well-formed answer, or nil and why there is none.
function client.ask(config, line)
    local text, reason = transact(config.socket, line, config.limit_ms / 1000)
    local answer
    if text then
        answer, reason = decode(text)
    end
    if not answer then
        if not opened_at then
            slurm.log_error("%s", ("hpcmgr: no answer from %s (%s); next try in %g s"):format(
                config.socket, reason, config.breaker_s))
        end
        opened_at = now()
        return nil, reason
    end
    if opened_at then
        slurm.log_info("%s", ("hpcmgr: %s answers again; %d requests were not sent"):format(
            config.socket, skipped))
        opened_at, skipped = nil, 0
    end
    return answer
end

return client
