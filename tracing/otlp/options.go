package otlp

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"mailroom/orchestrator/pattern"
)

// Options configures where and how spans are sent. The zero value sends none.
type Options struct {
	URL      string            // of the receiver's traces; "" sends none
	Headers  map[string]string // of each request
	Timeout  time.Duration     // of each request
	Gzip     bool              // compress bodies
	Resource []Attribute       // attributes of the sender, in addition to its own
}

// Off, in place of a URL, sends nothing, regardless of the environment.
const Off = "off"

// Configure reads the options from the environment variables of OpenTelemetry. endpoint, if it is not "", replaces
// the variables for the endpoint; Off disables sending. Errors name the invalid variable.
func Configure(endpoint string, getenv func(string) string) (o Options, err error) {
	specific := func(name string) string {
		return cmp.Or(getenv("OTEL_EXPORTER_OTLP_TRACES_"+name), getenv("OTEL_EXPORTER_OTLP_"+name))
	}
	own := getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	switch {
	case endpoint == Off:
		return Options{}, nil
	case endpoint != "":
		o.URL, err = target("--otlp", endpoint, true)
	case strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") || getenv("OTEL_TRACES_EXPORTER") == "none":
		return Options{}, nil
	case own != "":
		o.URL, err = target("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", own, false)
	case getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "":
		o.URL, err = target("OTEL_EXPORTER_OTLP_ENDPOINT", getenv("OTEL_EXPORTER_OTLP_ENDPOINT"), true)
	default:
		return Options{}, nil
	}
	if err != nil {
		return Options{}, err
	}
	if protocol := specific("PROTOCOL"); endpoint == "" && protocol != "" && protocol != "http/json" &&
		protocol != "http/protobuf" {
		return Options{},
			fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q, but Mailroom supports only http/json. "+
				"Set the variable to http/json, and set the endpoint to the HTTP port of the receiver, usually 4318. To send no traces, use --otlp off", Clip(protocol, 40))
	}
	if o.Timeout, err = timeout(specific("TIMEOUT")); err != nil {
		return Options{}, err
	}
	if o.Headers, err = headers(specific("HEADERS")); err != nil {
		return Options{}, err
	}
	switch compression := specific("COMPRESSION"); compression {
	case "", "none":
	case "gzip":
		o.Gzip = true
	default:
		return Options{},
			fmt.Errorf("OTEL_EXPORTER_OTLP_COMPRESSION must be none or gzip, but is %q", Clip(compression, 40))
	}
	o.Resource, err = resource(getenv)
	return o, err
}

// target returns the URL for traces. base is set if the endpoint is one for all signals, to which the path for traces
// is added.
func target(name, endpoint string, base bool) (string, error) {
	u, err := url.Parse(endpoint)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return "", fmt.Errorf("%s must be a URL; use the form http://localhost:4318", name) // may hold a password
	}
	u.Fragment = ""
	if base && !strings.HasSuffix(u.Path, "/v1/traces") {
		u = u.JoinPath("v1", "traces")
	}
	return u.String(), nil
}

// Target returns the URL without the parts that may be secret: user, password and query.
func (o *Options) Target() string {
	u, err := url.Parse(o.URL)
	if err != nil || o.URL == "" {
		return ""
	}
	u.User, u.RawQuery = nil, ""
	return u.String()
}

const defaultTimeout = 10 * time.Second

// LongestTimeout is the longest that a request may take, regardless of the environment.
const LongestTimeout = time.Minute

// timeout parses a number of milliseconds.
func timeout(text string) (time.Duration, error) {
	if text == "" {
		return defaultTimeout, nil
	}
	ms, err := strconv.ParseInt(text, 10, 32)
	if err != nil || ms < 1 {
		return 0, fmt.Errorf("OTEL_EXPORTER_OTLP_TIMEOUT must be a number of milliseconds, but is %q", Clip(text, 40))
	}
	return min(time.Duration(ms)*time.Millisecond, LongestTimeout), nil
}

// pairs parses a comma-separated list of name=value, whose values are percent-encoded. Errors do not repeat any of
// the list.
func pairs(name, text string) (map[string]string, error) {
	all := map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		key, value, found := strings.Cut(part, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if key = strings.TrimSpace(key); !found || key == "" || err != nil ||
			strings.ContainsAny(key+value, "\r\n\x00") {
			return nil, fmt.Errorf("%s must be a comma-separated list of name=value pairs", name)
		}
		all[key] = value
	}
	return all, nil
}

// headers parses the headers of each request.
func headers(text string) (map[string]string, error) {
	const variable = "OTEL_EXPORTER_OTLP_HEADERS"
	all, err := pairs(variable, text)
	for name, value := range all {
		if !fieldName().MatchString(name) ||
			strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return nil, fmt.Errorf("%s contains an invalid header; write name=value, with %%20 for a space in the value",
				variable)
		}
	}
	return all, err
}

// fieldName matches the name of a header. Source: RFC 9110, section 5.6.2.
var fieldName = pattern.New("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// resource reads the attributes that describe the sender.
func resource(getenv func(string) string) (list []Attribute, err error) {
	all, err := pairs("OTEL_RESOURCE_ATTRIBUTES", getenv("OTEL_RESOURCE_ATTRIBUTES"))
	if err != nil {
		return nil, err
	}
	if name := getenv("OTEL_SERVICE_NAME"); name != "" {
		all["service.name"] = name
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		list = append(list, Text(key, all[key]))
	}
	return list, nil
}
