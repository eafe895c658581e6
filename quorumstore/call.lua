-- Makes operations on rows, each of them atomically and without the others.
--
-- KEYS[i]  for i > 1: the row of operation i
-- ARGV[i]  for i > 1: the operation, one of
--            'r'  read
--            'p'  prepare: ballot (14)
--            'i'  prepare if the row has no parts, and read otherwise: ballot (14)
--            'a'  accept: ballot (14), next ballot (14; zeros: none), latest expiry of the
--                 parts (7), greatest class that is replaced (1), parts
--
-- A ballot is a time and an id, 7 bytes each. A row is the version of this format (1), its
-- promise (14), the latest expiry of its parts (7), its greatest class (1), and its parts by
-- ascending class. A part is its class (1), ballot (14), expiry (7), length (4) and data.
--
-- The reply has an element for each operation: how it ended, and then
--   'o'  done           the row as it was, of read and prepare; empty: there is no row
--   'n'  refused        the same; after accept, the row without its parts
--   'c'  the row cannot be read
--   'f'  the server refuses a command   the text of its error
local VERSION, HEADER, PART = 1, 23, 26
local MAX_ID = 9007199254740991
local max = math.max
local floor = max(read('>I7', mark, 16) + slack, now - slack)

-- Writes a row. It returns the error of the server, if any.
local function save(key, t, id, expires, top, parts)
  local millis = max(1, math.ceil((max(expires, t) + slack) / 1000))
  local row = write('>BI7I7I7B', VERSION, t, id, expires, top) .. parts
  local reply = pcall('SET', key, row, 'PXAT', string.format('%.0f', millis))
  return type(reply) == 'table' and reply.err
end

-- Returns the parts of a row above a class, and their latest expiry; nil if the row cannot
-- be read.
local function above(row, class)
  local at, from, latest = HEADER + 1, #row + 1, 0
  while at + PART - 1 <= #row do
    local c, _, _, expires, length = read('>BI7I7I7I4', row, at)
    if c > class then
      if from > at then from = at end
      latest = max(latest, expires)
    end
    at = at + PART + length
  end
  if at ~= #row + 1 then return nil end
  return sub(row, from), latest
end

local function operate(key, op)
  local row = pcall('GET', key)
  if type(row) == 'table' then return 'f' .. row.err end
  if row and (#row < HEADER or byte(row) ~= VERSION) then return 'c' end
  local verb = byte(op)
  if verb == 114 or verb == 105 and row and #row > HEADER then return 'o' .. (row or '') end

  local t, id = read('>I7I7', op, 2)
  local promiseT, promiseID, expires, top = floor, MAX_ID, 0, 0
  if row then promiseT, promiseID, expires, top = read('>I7I7I7B', row, 2) end
  local below = t < promiseT or t == promiseT and id < promiseID
  local failed
  if verb ~= 97 then
    if below or t == promiseT and id == promiseID then return 'n' .. (row or '') end
    failed = save(key, t, id, expires, top, row and sub(row, HEADER + 1) or '')
    return failed and 'f' .. failed or 'o' .. (row or '')
  end

  local header = row and sub(row, 1, HEADER) or ''
  if below then return 'n' .. header end
  local nextT, nextID, latest, upTo = read('>I7I7I7B', op, 16)
  local parts = sub(op, 38)
  if row and top > upTo and #row > HEADER then
    local kept, keptLatest = above(row, upTo)
    if not kept then return 'c' end
    parts, latest = parts .. kept, max(latest, keptLatest)
  else
    top = upTo
  end
  if nextT > 0 or nextID > 0 then t, id = nextT, nextID end
  failed = save(key, t, id, latest, top, parts)
  return failed and 'f' .. failed or 'o'
end

local reply = {about}
for i = 2, #ARGV do reply[i] = operate(KEYS[i], ARGV[i]) end
return reply
