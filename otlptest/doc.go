// Package otlptest tests `mailroom serve --otlp` with the receiver of the OpenTelemetry Collector. It is a separate
// module, so that Mailroom does not depend on the Collector and its dependencies. The package contains only tests.
package otlptest
