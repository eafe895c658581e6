//go:build race

package resp

const raceDetector = true
