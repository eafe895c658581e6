// Package stintprom exports to Prometheus what clients of packages client and
// grpcclient do.
//
// Use one [Metrics] for all clients of a program: register it, set it as the Observer of
// their Chains, and call Watch for each Chain.
//
// It promises that servers and requests choose no label value: dependencies are the names
// of Chains, and results and codes come from fixed sets.
package stintprom
