-- Returns the commands of the scripts that this user may not call, or that this
-- server does not have: their names, separated by spaces. A server checks the
-- permission first, so later errors do not matter, such as those of a replica or
-- of a key that another server of a Cluster owns.
--
-- ARGV[1]  a key that nothing else uses
local key, lacks = ARGV[1], {}

local function try(name, ...)
  local reply = redis.pcall(name, ...)
  local text = type(reply) == 'table' and reply.err or ''
  local lacking = string.find(text, "can't run this command", 1, true)
    or string.find(text, 'no permissions to run', 1, true)
    or string.find(text, 'Unknown Redis command', 1, true)
  if lacking then lacks[#lacks + 1] = name end
  return not lacking
end

try('time')
try('mget', key)
try('getrange', key, 0, 0)
try('strlen', key)
try('type', key)
try('set', key, '', 'PX', 1000, 'NX')
if try('psetex', key, 1000, '') then -- if PSETEX failed, SETRANGE would create a key without expiry
  try('setrange', key, 0, '')
end
try('pexpire', key, 1000)
try('pttl', key)
try('del', key)
try('zadd', key, 'XX', 0, '')
try('zscore', key, '')
try('zrem', key, '')
try('zremrangebyscore', key, 0, 0)
try('zcard', key)
return table.concat(lacks, ' ')
