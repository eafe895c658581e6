-- A node says which version of the rules it runs, and those that have been
-- silent are forgotten.
--
-- KEYS[1]  hash: from the id of a node to what it said
-- KEYS[2]  sorted set: ids by the time, in milliseconds, at which they are forgotten
-- ARGV[1]  the id
-- ARGV[2]  what it says
-- ARGV[3]  for how many milliseconds
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('ZADD', KEYS[2], string.format('%.0f', now + ARGV[3]), ARGV[1])
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', now))) do
  redis.call('HDEL', KEYS[1], id)
  redis.call('ZREM', KEYS[2], id)
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
