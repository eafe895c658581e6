-- Forgets every version above a number. The stream is rewritten, because it never gives out an
-- id below its last one, even if that entry is gone. A key that has another type is deleted.
--
-- KEYS[1]  stream: versions without their files; the id of an entry is the number of its version
-- KEYS[2]  hash: from the number of a version to the whole version
-- KEYS[3]  hash: the announcements of the nodes
-- KEYS[4]  sorted set: when each node is forgotten
-- KEYS[5]  string: the secret of the nodes
-- ARGV[1]  the number
-- ARGV[2]  another secret
local entries = redis.pcall('XRANGE', KEYS[1], '-', ARGV[1])
redis.call('DEL', KEYS[1])
if not entries.err then
  for _, entry in ipairs(entries) do
    local version = '' -- of an entry that is none, the number alone stays
    for i = 1, #entry[2], 2 do
      if entry[2][i] == 'version' then
        version = entry[2][i + 1]
      end
    end
    redis.call('XADD', KEYS[1], entry[1], 'version', version)
  end
end
local fields = redis.pcall('HKEYS', KEYS[2])
if fields.err then
  redis.call('DEL', KEYS[2])
else
  for _, field in ipairs(fields) do
    local number = string.match(field, '^[1-9]%d*$')
    if not number or #number > #ARGV[1] or #number == #ARGV[1] and number > ARGV[1] then
      redis.call('HDEL', KEYS[2], field)
    end
  end
end
redis.call('DEL', KEYS[3], KEYS[4])
redis.call('SET', KEYS[5], ARGV[2])
