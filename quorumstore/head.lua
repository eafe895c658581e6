-- Begins call.lua and scan.lua: it checks what a request says about the whole server.
-- If a check fails, it returns the first element of the reply alone, and nothing is done.
--
-- KEYS[1]  the mark: hash of the members (8 bytes), incarnation, birth (7 each), ever
--          (1), and then the run_id of the process that was marked, after a '-' if the
--          mark was taken from it
-- ARGV[1]  hash of the members (8), incarnation (7; zeros: any), last time (7; 0: any),
--          slack (7), and then the run_id of the process that this connection leads to
--
-- The first element of a reply has the status (1), the time (7), and, unless the status
-- is UNBORN, the incarnation, birth and ever of the mark. Whole numbers are big-endian and
-- below 2^53; times are microseconds. They are compared as numbers: < on strings depends
-- on the locale.
local read, write, call, pcall = struct.unpack, struct.pack, redis.call, redis.pcall
local sub, byte = string.sub, string.byte
local UNBORN, OTHER_MEMBERS, OTHER_INCARNATION, LATE = 1, 2, 3, 4
local mark, head, time = call('GET', KEYS[1]) or '', ARGV[1], call('TIME')
local now = tonumber(time[1]) * 1e6 + tonumber(time[2])
local last, slack = read('>I7I7', head, 16)
local status, wanted = 0, sub(head, 9, 15)
if #mark < 24 or sub(mark, 24) ~= sub(head, 30) then
  status = UNBORN
elseif sub(mark, 1, 8) ~= sub(head, 1, 8) then
  status = OTHER_MEMBERS
elseif wanted ~= '\0\0\0\0\0\0\0' and wanted ~= sub(mark, 9, 15) then
  status = OTHER_INCARNATION
elseif last > 0 and now > last then
  status = LATE
end
local about = write('>BI7', status, now)
if status ~= UNBORN then about = about .. sub(mark, 9, 23) end
if status ~= 0 then return {about} end

