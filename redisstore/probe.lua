-- A write that leaves nothing behind, so that a server that is up but takes no
-- writes (a replica, a full disk, no memory), or lacks what the scripts of
-- checks need, does not pass for well. It calls what every check may call: a
-- user who is not permitted one of them would else have the breaker open and
-- close several times a second.
--
-- KEYS[1]  a key of nobody's
redis.call('TIME')
redis.call('MGET', KEYS[1])
redis.call('SET', KEYS[1], struct.pack('>I7', 1), 'PX', 1, 'NX')
redis.call('PSETEX', KEYS[1], 1, '')
return ''
