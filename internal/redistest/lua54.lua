-- Runs scripts on Lua 5.4 as a server with that version of Lua would. The commands of
-- the scripts go through the standard output to a real server, and the replies come
-- back through the standard input.
--
-- Each request and each message is an array of strings in the Redis protocol:
--   request   script, number of keys, keys, arguments
--   'call'    words: a command; the next input is its reply
--   'done'    strings: the reply of the script
--   'failed'  text: the error of the script
--
-- arg[1] is the subtype of the numbers that struct.unpack returns: 'float', as in
-- Dragonfly, or 'integer', as in string.unpack.

local function send(words)
  local parts = {'*' .. #words .. '\r\n'}
  for _, word in ipairs(words) do parts[#parts + 1] = '$' .. #word .. '\r\n' .. word .. '\r\n' end
  io.write(table.concat(parts))
  io.flush()
end

-- Reads a reply as the servers convert it for scripts: nil is false, and a status and
-- an error are tables.
local function receive()
  local line = io.read('L') or os.exit(true)
  local kind, text = line:sub(1, 1), line:sub(2, -3)
  if kind == '+' then return {ok = text} end
  if kind == '-' then return {err = text} end
  local number = math.tointeger(text)
  if kind == ':' then return number end
  if number < 0 then return false end
  if kind == '$' then return io.read(number + 2):sub(1, -3) end
  local items = {}
  for i = 1, number do items[i] = receive() end
  return items
end

-- Numbers become text as in Dragonfly.
local function word(value)
  if math.type(value) == 'float' then return string.format('%.17g', value) end
  assert(type(value) == 'string' or type(value) == 'number', 'a word of a command is a ' .. type(value))
  return tostring(value)
end

local function pcallServer(...)
  local words = {'call'}
  for i, value in ipairs({...}) do words[i + 1] = word(value) end
  send(words)
  return receive()
end

local function callServer(...)
  local reply = pcallServer(...)
  if type(reply) == 'table' and reply.err then error(reply.err, 0) end
  return reply
end

-- The library struct, for the formats of whole numbers. string.pack fails on a negative
-- number for an unsigned field, and struct.pack drops the high bits.
local bits = {}
local function bitsOf(format)
  local list = bits[format]
  if not list then
    list = {}
    for kind, size in format:gmatch('([BIi])(%d*)') do
      list[#list + 1] = kind == 'i' and -1 or (1 << 8 * (tonumber(size) or 1)) - 1
    end
    bits[format] = list
  end
  return list
end

local struct = {}

function struct.pack(format, ...)
  local values = {...}
  for i, mask in ipairs(bitsOf(format)) do
    local whole = math.tointeger(values[i])
    if not whole then error('field ' .. i .. ' of ' .. format .. ' is ' .. tostring(values[i])) end
    values[i] = whole & mask
  end
  return string.pack(format, table.unpack(values))
end

function struct.unpack(format, data, position)
  local values = {string.unpack(format, data, position)}
  if arg[1] == 'float' then
    for i = 1, #values - 1 do values[i] = values[i] + 0.0 end
  end
  return table.unpack(values)
end

-- The globals of a script. Servers forbid to read others.
local globals = setmetatable({
  redis = {call = callServer, pcall = pcallServer}, struct = struct,
  string = string, table = table, math = math, ipairs = ipairs, pairs = pairs, tonumber = tonumber, type = type,
}, {__index = function(_, name) error('there is no global ' .. name, 2) end})

local compiled = {}

while true do
  local request = receive()
  local text, keys = request[1], math.tointeger(request[2])
  globals.KEYS, globals.ARGV = table.move(request, 3, 2 + keys, 1, {}), table.move(request, 3 + keys, #request, 1, {})
  local ok, reply = true, nil
  if not compiled[text] then
    compiled[text], reply = load(text, '=script', 't', globals)
    ok = compiled[text] ~= nil
  end
  if ok then ok, reply = pcall(compiled[text]) end
  if not ok then
    send({'failed', tostring(reply)})
  else
    send({'done', table.unpack(type(reply) == 'table' and reply or {reply})})
  end
end
