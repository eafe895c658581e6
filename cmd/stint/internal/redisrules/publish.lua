-- Publishes a version of the rules, if the newest version is still the one that it follows.
--
-- KEYS[1]  stream: versions without their files; the id of an entry is the number of its version
-- KEYS[2]  hash: from the number of a version to the whole version
-- ARGV[1]  the number that the newest version must have, 0 for none
-- ARGV[2]  the number of this version
-- ARGV[3]  this version without its files
-- ARGV[4]  this version, whole
-- ARGV[5]  number of versions that keep their files
-- ARGV[6]  number of versions to keep
-- ARGV[7]  the channel on which the version is announced
-- ARGV[8]  the highest id that counts: Stint did not write entries above it
--
-- Returns the newest version without its files, or an empty string if there is none. It differs
-- from ARGV[3] if another writer was faster. Returns "above" and a number if ARGV[2] was given
-- out before, to a version that has been deleted. Numbers are compared as text, because they can
-- exceed 2^53.
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
-- A user without permission to announce still publishes: the nodes poll.
redis.pcall('PUBLISH', ARGV[7], ARGV[2])
return ARGV[3]
