module github.com/stintdev/stint/redisstore

go 1.26.0

require (
	github.com/redis/rueidis v1.0.79
	github.com/stintdev/stint v0.1.0
)

require golang.org/x/sys v0.49.0 // indirect
