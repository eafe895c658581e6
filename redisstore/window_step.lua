-- The step of a fixed window, a translation of fixed_window.go in package stint. It
-- is inserted into plain.lua and one_window.lua at the line that names it, like
-- bucket_step.lua.
--
-- Input: key, its state (false: none), now, start, the limit's most (units in a
-- window) and window (its length), cost, times (the number of callers; as many as
-- fit are charged) and wanted (cost * times).
-- Output: size and fit, as in bucket_step.lua.
local size, from, count = 0, now - now % window, 0
if state then
  size = #state
  local began, counted = 2 ^ 53, 0
  if size == 11 then began, counted = read('>i7I4', state) end
  if began >= 2 ^ 53 or began <= -2 ^ 53 or counted > 1000000000 then
    size, state = 255, ''
  else
    if began > now then from = began - began % window end -- the clock went back
    if began == from then count = counted end
  end
end

local room, fit = most - count, times
if room < 0 then room = 0 end -- the limit was lowered
if wanted > room then fit = (room - room % cost) / cost end
if size == 255 then
  fit = 0
elseif fit > 0 and cost > 0 then
  local value, gone = write('>i7I4', from, count + fit * cost), from + window
  local ms = (gone + -gone % 1000) / 1000 - start
  if state then
    -- A number in place of the text would take longer.
    call('PSETEX', key, text('%d', ms), value)
  elseif not call('SET', key, value, 'PX', text('%d', ms), 'NX') then
    size, fit = 254, 0
  end
elseif not state and call('TYPE', key).ok ~= 'none' then
  size, fit = 254, 0
end
