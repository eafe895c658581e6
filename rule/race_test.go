//go:build race

package rule

// raceDetector says that the race detector is on: pools then forget at random, and
// compiling is ten times as slow.
const raceDetector = true
