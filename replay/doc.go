// Package replay decides recorded traffic as limits would have decided it
// live: events in, one decision each and a summary out.
//
// Use it to try a limit or a rule set on the log of real traffic before it
// meets real users, and to compare two of them. The command is
// "stint replay".
//
// It promises that time is the traffic's own, to the microsecond; that events
// are decided in order of (time, input, line) wherever their disorder stays
// within one reorder window; that a line that cannot be read is counted and
// shown, never fatal; and that memory holds the keys, one reorder window and
// a few blocks of each input, however long the traffic is.
package replay
