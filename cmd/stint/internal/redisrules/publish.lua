-- A version of the rules becomes the newest, if the newest is still the one
-- that it follows.
--
-- KEYS[1]  stream: versions without their files, whose ids are their numbers
-- KEYS[2]  hash: from the number of a version to all of it
-- ARGV[1]  the number that the newest must have, 0 for none
-- ARGV[2]  the number of the version
-- ARGV[3]  the version without its files
-- ARGV[4]  all of it
-- ARGV[5]  how many versions stay whole
-- ARGV[6]  how many versions stay at all
-- ARGV[7]  the channel on which it is announced
-- ARGV[8]  the highest id that counts: what is above was written by somebody else
-- Returns the newest version without its files, which is another than ARGV[3]
-- when somebody was faster; empty when there is none. Returns "above" and a number
-- when that of the version was given out before, to one that somebody has
-- deleted. Numbers are compared as text: they may pass 2^53.
local newest, number = '', '0'
local top = redis.call('XREVRANGE', KEYS[1], ARGV[8], '-', 'COUNT', 1)
if top[1] then
  number, newest = string.match(top[1][1], '^(%d+)'), top[1][2][2]
end
if number ~= ARGV[1] then
  return newest
end
local about = redis.pcall('XINFO', 'STREAM', KEYS[1])
for i = 1, #about, 2 do
  if about[i] == 'last-generated-id' then
    local last = string.match(about[i + 1], '^(%d+)')
    if #last > #ARGV[2] or #last == #ARGV[2] and last >= ARGV[2] then
      return 'above ' .. last
    end
  end
end
-- The files first: that fails where somebody has made the key another type, and
-- a version without files must not be listed.
redis.call('HSET', KEYS[2], ARGV[2], ARGV[4])
redis.call('XADD', KEYS[1], 'MAXLEN', ARGV[6], ARGV[2] .. '-0', 'version', ARGV[3])
local keep = {}
for _, entry in ipairs(redis.call('XREVRANGE', KEYS[1], ARGV[8], '-', 'COUNT', ARGV[5])) do
  keep[string.match(entry[1], '^(%d+)')] = true
end
for _, field in ipairs(redis.call('HKEYS', KEYS[2])) do
  if not keep[field] then
    redis.call('HDEL', KEYS[2], field)
  end
end
-- Who may not announce still publishes: the others poll.
redis.pcall('PUBLISH', ARGV[7], ARGV[2])
return ARGV[3]
