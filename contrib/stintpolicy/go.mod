module github.com/stintdev/stint/contrib/stintpolicy

go 1.26.0

require (
	github.com/failsafe-go/failsafe-go v0.9.8
	github.com/stintdev/stint v0.1.0
)

require github.com/bits-and-blooms/bitset v1.24.6 // indirect
