// Package stintprom exports to Prometheus what limiters, stores and clients do.
//
// Use one [Metrics] for a program, made by [New]. Register it, and pass it as the observer
// to limiters, guards, stores and the Chains of clients. Call [Metrics.WatchStore] for
// each store and [Metrics.WatchClient] for each client, to export their current state at
// each scrape.
//
// It promises that servers and requests choose no label value: the program names limiters,
// stores and dependencies, and results and kinds of errors come from small sets. Of each kind of name the first 1,000 have series of their own, and all further
// ones count as "_other". No metric has a key.
package stintprom
