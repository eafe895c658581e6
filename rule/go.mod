module github.com/stintdev/stint/rule

go 1.26.0

require (
	github.com/stintdev/stint v0.1.0
	go.yaml.in/yaml/v3 v3.0.6
)
