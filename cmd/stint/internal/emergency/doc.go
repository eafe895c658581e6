// Package emergency holds the switch of stint emergency: one limit that an operator puts on
// every request for a short time.
//
// Use it where a server decides requests. A [Switch] knows whether an emergency is on, ends
// it at its time, and calls its server with each change. An [InForce] has the limits that
// join the claims of requests.
//
// Where the source of the rules is shared by nodes and can carry the switch, it is a
// [Source]: a record beside the versions of the rules. The record is no version. A rollback
// must not undo an emergency, an emergency must not appear in the history of the rules, and
// a node whose rules are rejected must obey it all the same. Every node reads the record
// each [PollEvery]. While the source does not answer, or without a shared source, the switch
// of a node is its own: an operator switches each node by its own admin API.
//
// The package promises that an emergency ends at its time without any message, that a node
// which loses the source keeps to what it knew until that time, and that the switching that
// is last to arrive replaces the ones before it.
package emergency
