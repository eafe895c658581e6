// Package replay decides recorded traffic as limits would have decided it live.
// It reads events and writes one decision for each and a report: how many would have been
// denied, by which rule, of which callers and when.
//
// Use it to test a limit or a rule set on a log of real traffic before real
// users are affected, and to compare two of them. The command is "stint
// replay".
//
// Time is the time of the traffic, exact to the microsecond. Events are decided
// in order of (time, input, line) wherever their disorder stays within one
// reorder window. A line that cannot be read is counted and shown and never
// ends the replay. Memory grows with the number of keys and callers, plus one reorder
// window and a few blocks of each input, but not with the length of the
// traffic.
package replay
