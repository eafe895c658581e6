-- Returns the server's time in microseconds. (%.0f writes a time exactly; tostring would
-- round it.)
local t = redis.call('TIME')
return string.format('%.0f', t[1] * 1000000 + t[2])
