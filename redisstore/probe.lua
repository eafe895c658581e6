-- Writes a key that expires at once. A server that is up but refuses writes (a
-- replica, a full disk, no memory) therefore fails the probe. It calls the commands
-- that every check may call: if the user lacked one of them and the probe did not
-- notice, the breaker would open and close several times a second.
--
-- KEYS[1]  a key that nothing else uses
redis.call('TIME')
redis.call('MGET', KEYS[1])
redis.call('SET', KEYS[1], struct.pack('>I7', 1), 'PX', 1, 'NX')
redis.call('PSETEX', KEYS[1], 1, '')
return ''
