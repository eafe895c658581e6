-- Returns some keys of rows.
--
-- ARGV[2]  the cursor of SCAN; ARGV[3]: the pattern of the keys; ARGV[4]: about how many
--
-- The reply has the next cursor ('0' at the end) and the keys.
local page = call('SCAN', ARGV[2], 'MATCH', ARGV[3], 'COUNT', ARGV[4])
local reply, keys = {about, page[1]}, page[2]
for i = 1, #keys do reply[i + 2] = keys[i] end
return reply
