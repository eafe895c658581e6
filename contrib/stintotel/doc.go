// Package stintotel exports to OpenTelemetry what limiters, stores and clients do: as
// metrics, and as spans in the traces of their callers.
//
// Use one [Telemetry] for a program, made by [New]. Pass it as the observer to limiters,
// guards, stores and the Chains of clients. Call [Telemetry.WatchStore] for each store and
// [Telemetry.WatchClient] for each client, to export their current state at each
// collection. The package uses the API of OpenTelemetry alone; the program chooses the
// SDK.
//
// It promises that servers and requests choose no attribute: the program names limiters,
// stores and dependencies, and results and kinds of errors come from small sets. Of each kind of name the first 1,000 have attributes of their own, and all
// further ones count as "_other". No metric and no span has a key or the text of an
// error.
package stintotel
