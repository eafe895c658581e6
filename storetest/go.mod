module github.com/stintdev/stint/storetest

go 1.26.0

require (
	github.com/stintdev/stint v0.1.0
	pgregory.net/rapid v1.3.0
)
