// Package otlptest tests `mailroom serve --otlp` with the receiver of the OpenTelemetry Collector. It is a module of
// its own, so that the Collector and its dependencies stay out of Mailroom's module. It contains only tests.
package otlptest
