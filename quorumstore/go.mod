module github.com/stintdev/stint/quorumstore

go 1.26.0

require github.com/stintdev/stint v0.1.0
