-- Decides one group that its caller may repeat, and remembers the reply for 60 s in
-- the same step. A repeat gets the first reply, so that the client computes the
-- first decisions from it.
--
-- KEYS: those of take.lua, and then the key of the record. ARGV[1]: as for take.lua;
-- the modes mark and unmark read only its clock and keep. ARGV[2]: a digest of the
-- group (16 bytes), and a byte: 1 if the reply of take.lua has the byte of a group
-- with flag 8. ARGV[3]: the mode:
--   take    decide the group, and remember the reply if the group is admitted
--   any     decide the group, and remember the reply
--   find    only answer a repeat, because there is no room for another record
--   dry     decide the group and remember nothing; the claims have flag 4
--   undo    if there is a record, delete it and decide the group, which refunds
--   mark    make a record without a reply, unless there is one
--   unmark  delete the record
--
-- A record is ARGV[2] and then the reply, which begins with the time. The script
-- returns the reply, the last byte of ARGV[2] as the record has it, and a byte: 0
-- decided now and not remembered, 1 decided now and remembered, 2 a repeat, 3 the
-- record is of another group, 4 nothing to undo, 5 no record to find.
local read, write, call = struct.unpack, struct.pack, redis.call
local sub = string.sub
local record, group, mode = KEYS[#KEYS], ARGV[2], ARGV[3]
local now, keep = read('>i7i7', ARGV[1])
if now < 0 then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end

local function take()
-- take.lua
end

-- A record that another clock made may be past its time and still there.
local old = call('MGET', record)[1]
if old and (#old < 24 or now - read('>i7', old, 18) >= 60000000) then old = nil end

local function remember(reply) call('PSETEX', record, 60001 + keep, group .. reply) end

local nothing = write('>i7I4', now, 0)
if old and sub(old, 1, 16) ~= sub(group, 1, 16) then return nothing .. '\0\3' end
if mode == 'mark' then
  if old then return nothing .. '\0\2' end
  remember(nothing)
  return nothing .. '\0\1'
elseif mode == 'unmark' or mode == 'undo' then
  if old then call('DEL', record) end
  if not old or mode == 'unmark' then return nothing .. '\0\4' end
elseif old then
  return sub(old, 18) .. sub(old, 17, 17) .. '\2'
elseif mode == 'find' then
  return nothing .. '\0\5'
end
local reply, admitted = take()
local status = '\0'
if mode == 'any' or mode == 'take' and admitted then
  remember(reply)
  status = '\1'
end
return reply .. sub(group, 17, 17) .. status
