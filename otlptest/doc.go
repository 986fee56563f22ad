// Package otlptest holds `mailroom serve --otlp` to the receiver of the OpenTelemetry Collector. It is a module of its
// own, so that the Collector and all that it needs stay out of Mailroom's. It has nothing but tests.
package otlptest
