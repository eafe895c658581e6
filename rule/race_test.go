//go:build race

package rule

// raceDetector means that the race detector is on. Pools then drop values at
// random, and compiling is ten times slower.
const raceDetector = true
