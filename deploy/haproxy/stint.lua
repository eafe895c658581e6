-- Asks Stint whether a request may pass:
--
--   http-request lua.stint URL open|closed
--
-- A denial is answered at once, as Stint wrote it. For an allowed request the
-- variables txn.stint_* hold the headers that the client should see. With
-- "open", a request passes where Stint cannot be reached or takes too long. It
-- needs HAProxy 2.6 or newer.

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

-- Headers of an answer that are for the client, and their variables; those with false
-- are on denials alone.
local client_headers = {
    ["x-ratelimit-limit"] = "txn.stint_x_limit",
    ["x-ratelimit-remaining"] = "txn.stint_x_remaining",
    ["x-ratelimit-reset"] = "txn.stint_x_reset",
    ["x-ratelimit-policy"] = "txn.stint_x_policy",
    ["ratelimit"] = "txn.stint_ratelimit",
    ["ratelimit-policy"] = "txn.stint_policy",
    ["ratelimit-limit"] = "txn.stint_limit",
    ["ratelimit-remaining"] = "txn.stint_remaining",
    ["ratelimit-reset"] = "txn.stint_reset",
    ["retry-after"] = false, ["cache-control"] = false, ["content-type"] = false,
    ["x-ratelimit-penalty"] = false, ["x-stint-emergency"] = false,
}

-- The maximum number of header lines that are passed on. HAProxy's HTTP client
-- crashes HAProxy if it gets more lines than tune.http.maxhdr, 101 by default,
-- including its own and those below. Do not set maxhdr lower.
local most = 90

-- question returns the headers to send to Stint, or nil if there are too many
-- lines. HAProxy numbers the lines of a header from 0; its client expects lists
-- that start at 1.
local function question(txn)
    local headers, count = {}, 0
    for name, lines in pairs(txn.http:req_get_headers()) do
        if not never[name] then
            headers[name] = {}
            for i = 0, #lines do
                headers[name][i + 1] = lines[i]
                count = count + 1
            end
        end
    end
    if count > most then return end
    headers["x-original-uri"] = { txn.f:url() }
    headers["x-original-method"] = { txn.f:method() }
    headers["x-forwarded-host"] = { txn.f:req_hdr("host") }
    headers["x-forwarded-for"] = { txn.f:src() }
    return headers
end

local function refuse(txn, status, answer)
    local reply = txn:reply({ status = status })
    for name in pairs(client_headers) do
        for _, value in pairs(answer.headers[name] or {}) do reply:add_header(name, value) end
    end
    reply:set_body(answer.body or "")
    txn:done(reply)
end

-- The statuses with which HAProxy, or another proxy in front of Stint, reports
-- that Stint cannot be reached or takes too long. Clients cannot cause them.
local unreachable = { [502] = true, [503] = true, [504] = true }

-- undecided refuses or passes a request that Stint has not decided. A request
-- that is malformed or too large for Stint is refused in either mode: otherwise
-- a client could escape its limit by sending one.
local function undecided(txn, status, mode)
    if mode == "open" and (status == 0 or unreachable[status]) then return end
    local headers = { ["cache-control"] = { "no-store" } }
    if status ~= 400 and status ~= 431 then
        status = 503
        headers["retry-after"] = { "1" }
    end
    refuse(txn, status, { headers = headers })
end

local function ask(txn, url, mode)
    local headers = question(txn)
    if not headers then return undecided(txn, 431, mode) end
    -- The error comes from HAProxy: the headers do not fit into its buffer.
    local asked, answer = pcall(function()
        return core.httpclient():get({ url = url .. "/v1/auth", headers = headers })
    end)
    if not asked then return undecided(txn, 431, mode) end
    local status, said = answer and answer.status or 0, answer and answer.headers or {}
    if not said["x-ratelimit-status"] then
        undecided(txn, status, mode)
    elseif status ~= 200 then
        refuse(txn, status, answer)
    else
        for name, variable in pairs(client_headers) do
            local lines = said[name]
            if variable and lines then txn:set_var(variable, lines[0] or lines[1]) end
        end
    end
end

core.register_action("stint", { "http-req" }, ask, 2)
