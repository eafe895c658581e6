-- Announces a node and counts the announced nodes.
--
-- KEYS[1]  sorted set: nodes by the time, in microseconds, at which they count as gone
-- ARGV[1]  the node
-- ARGV[2]  how long the announcement counts, in microseconds; 0 withdraws it
-- Returns the server's time in microseconds, the number of nodes, and 1 if the node
-- was announced before, separated by spaces. (%.0f writes a time exactly; tostring
-- would round it.)
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local lasts = tonumber(ARGV[2])
local known = (tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or 0) > now) and 1 or 0
if lasts == 0 then
  redis.call('ZREM', KEYS[1], ARGV[1])
else
  redis.call('ZADD', KEYS[1], string.format('%.0f', now + lasts), ARGV[1])
  local ms = math.ceil(lasts / 1000)
  if redis.call('PTTL', KEYS[1]) < ms then
    redis.call('PEXPIRE', KEYS[1], ms)
  end
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))
return string.format('%.0f %d %d', now, redis.call('ZCARD', KEYS[1]), known)
