//go:build !race

package rule

const raceDetector = false
