module github.com/stintdev/stint

go 1.26.0
