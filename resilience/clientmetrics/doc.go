// Package clientmetrics shows Prometheus what clients made of package client
// and grpcclient do.
//
// Use one [Metrics] for all clients of a program: register it, make it the
// Observer of their Parts, and Watch those.
//
// It promises that no label has a value which servers or requests choose:
// dependencies are what Parts are named, results and codes are of fixed sets.
package clientmetrics
