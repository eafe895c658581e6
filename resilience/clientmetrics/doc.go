// Package clientmetrics exports to Prometheus what clients of packages client and
// grpcclient do.
//
// Use one [Metrics] for all clients of a program: register it, set it as the Observer of
// their Parts, and call Watch for each of the Parts.
//
// It promises that servers and requests choose no label value: dependencies are the names
// of Parts, and results and codes come from fixed sets.
package clientmetrics
