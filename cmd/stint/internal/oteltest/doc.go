// Package oteltest tests contrib/stintotel with the SDK of OpenTelemetry. It is not in
// that module, because the SDK would then be in the module graph of its users.
package oteltest
