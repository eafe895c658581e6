-- A write that leaves nothing behind, so that a server that is up but takes no
-- writes (a replica, a full disk, no memory), or lacks what the scripts of
-- checks need, does not pass for well.
--
-- KEYS[1]  a key of nobody's
redis.call('SET', KEYS[1], struct.pack('>I7', 1), 'PX', 1)
return ''
