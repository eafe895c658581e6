-- Asks Stint whether a request may pass; see stint.conf. It needs mod_lua, and
-- LuaSocket for the Lua of mod_lua.
require "apache2"
local socket = require "socket"

local address = "127.0.0.1:8080"
local fail = "open" -- passes requests while Stint cannot be reached or takes too long, "closed" refuses them (503)
local seconds = 0.5 -- how long each step of asking may take
local most = 60000 -- bytes of a question: Stint reads 64 KiB of headers

-- Headers of the client that are not passed on: those with which a proxy
-- describes its client, and those of the connection and the body.
local never = {
    ["x-original-uri"] = true, ["x-original-method"] = true,
    ["x-forwarded-uri"] = true, ["x-forwarded-method"] = true,
    ["x-forwarded-for"] = true, ["x-forwarded-host"] = true,
    ["forwarded"] = true, ["x-stint-token"] = true, ["host"] = true,
    ["connection"] = true, ["keep-alive"] = true, ["upgrade"] = true,
    ["te"] = true, ["trailer"] = true, ["transfer-encoding"] = true,
    ["content-length"] = true, ["expect"] = true,
}

-- Headers of an answer that are for the client.
local client_headers = {
    ["x-ratelimit-limit"] = "X-RateLimit-Limit",
    ["x-ratelimit-remaining"] = "X-RateLimit-Remaining",
    ["x-ratelimit-reset"] = "X-RateLimit-Reset",
    ["x-ratelimit-policy"] = "X-RateLimit-Policy",
    ["x-ratelimit-penalty"] = "X-RateLimit-Penalty",
    ["x-stint-emergency"] = "X-Stint-Emergency",
    ["ratelimit"] = "RateLimit",
    ["ratelimit-policy"] = "RateLimit-Policy",
    ["ratelimit-limit"] = "RateLimit-Limit",
    ["ratelimit-remaining"] = "RateLimit-Remaining",
    ["ratelimit-reset"] = "RateLimit-Reset",
    ["retry-after"] = "Retry-After",
    ["cache-control"] = "Cache-Control",
}

local connection -- to Stint, kept by this thread between requests

local function question(r)
    local lines = { "GET /v1/auth HTTP/1.1", "Host: stint" }
    local function say(name, value)
        lines[#lines + 1] = name .. ": " .. value:gsub("[\r\n%z]", " ")
    end
    for name, value in pairs(r:headers_in_table()) do
        if not never[name:lower()] then say(name, value) end
    end
    say("X-Original-URI", r.unparsed_uri)
    say("X-Original-Method", r.method)
    say("X-Forwarded-Host", r.hostname or "")
    say("X-Forwarded-For", r.useragent_ip)
    return table.concat(lines, "\r\n") .. "\r\n\r\n"
end

local function drop()
    if connection then connection:close() end
    connection = nil
end

-- The statuses with which a proxy in front of Stint reports that Stint cannot
-- be reached or takes too long.
local unreachable = { [502] = true, [503] = true, [504] = true }

-- read returns the status, the headers and the body of one answer, or nil if
-- the answer is incomplete.
local function read()
    local line = connection:receive("*l")
    local status = line and tonumber(line:match("^HTTP/%d%.%d (%d%d%d)"))
    if not status then return end
    local headers = {}
    while true do
        line = connection:receive("*l")
        if not line then return end
        if line == "" then break end
        local name, value = line:match("^([^:]+):%s*(.-)%s*$")
        if name then headers[name:lower()] = value end
    end
    local length = tonumber(headers["content-length"] or "0")
    local body = length > 0 and connection:receive(length) or ""
    if #body ~= length then return end
    -- The body of an answer that Stint did not write may have no length.
    if not headers["x-ratelimit-status"] or (headers["connection"] or ""):lower() == "close" then drop() end
    return status, headers, body
end

-- exchange asks over the kept connection or a new one. It never repeats a
-- request that was sent, because Stint would count it twice.
local function exchange(text)
    -- Anything readable before a request was sent is the end of the connection.
    if connection and socket.select({ connection }, nil, 0)[connection] then drop() end
    if not connection then
        local host, port = address:match("^(.*):(%d+)$")
        connection = socket.tcp()
        connection:settimeout(seconds)
        connection:setoption("tcp-nodelay", true)
        if not connection:connect(host, tonumber(port)) then return drop() end
    end
    connection:settimeout(seconds)
    if not connection:send(text) then return drop() end
    local status, headers, body = read()
    if not status then return drop() end
    return status, headers, body
end

-- undecided refuses or passes a request that Stint has not decided. status is
-- nil if there was no answer. A request that is malformed or too large for Stint
-- is refused in either mode: otherwise a client could escape its limit by sending
-- one.
local function undecided(r, status)
    if fail == "open" and (not status or unreachable[status]) then return apache2.DECLINED end
    r.err_headers_out["Cache-Control"] = "no-store"
    if status == 400 or status == 431 then return status end
    r.err_headers_out["Retry-After"] = "1"
    return 503
end

function ask(r)
    -- Ask once per request, not again for Apache's internal subrequests.
    if not r.is_initial_req then return apache2.DECLINED end
    local text = question(r)
    if #text > most then return undecided(r, 431) end
    local status, headers, body = exchange(text)
    if not status or not headers["x-ratelimit-status"] then return undecided(r, status) end
    for name, spelling in pairs(client_headers) do
        if headers[name] then r.err_headers_out[spelling] = headers[name] end
    end
    if status == 200 then return apache2.DECLINED end
    r.status = status
    r.content_type = headers["content-type"] or "text/plain"
    if r.method ~= "HEAD" then r:write(body) end
    return apache2.DONE
end
