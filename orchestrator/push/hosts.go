package push

import (
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"mailroom/orchestrator"
)

// services lists the hosts of the browsers' push services, and the suffixes of such hosts. Endpoints come from
// devices, so no other host is contacted unless somebody added it by hand. Source: signal.md, "Push".
var services = struct{ names, suffixes []string }{
	names:    []string{"fcm.googleapis.com", "updates.push.services.mozilla.com"},
	suffixes: []string{".push.apple.com", ".push.services.mozilla.com", ".notify.windows.com"},
}

// ntfyService is the ntfy server that need not be added by hand.
const ntfyService = "ntfy.sh"

// maxEndpoint is the maximum length of a subscription's address, in bytes.
const maxEndpoint = 2048

// Host reports whether pushes may go to a URL's host. It must be the host of a push service, or one of those added
// by hand as NAME (for the default port of the URL's scheme) or NAME:PORT. byHand reports the latter; such a host
// may be in a private network if the settings allow it. Host does not look up names.
func Host(u *url.URL, added []string) (known, byHand bool) {
	host := canonicalHost(u)
	if u.Scheme == "https" && (slices.Contains(services.names, host) ||
		slices.ContainsFunc(services.suffixes, func(s string) bool { return strings.HasSuffix(host, s) })) {
		return true, false
	}
	known = host != "" && slices.Contains(added, host)
	return known, known
}

// canonicalHost returns the host of a URL in lower case, an IP address in its shortest form, with the port unless
// it is the default of the scheme. It returns "" for an invalid host. A name with a trailing full stop or an empty
// label counts as invalid, because no list contains such names.
func canonicalHost(u *url.URL) string {
	host := u.Hostname()
	ip, err := netip.ParseAddr(host)
	switch {
	case err == nil && ip.Unmap().Is4():
		host = ip.Unmap().String()
	case err == nil:
		host = "[" + ip.String() + "]"
	case strings.Trim(host, "-._"+orchestrator.Alphanumeric) != "" || len(host) > 253 ||
		slices.Contains(strings.Split(host, "."), ""):
		return ""
	}
	host = strings.ToLower(host)
	port := u.Port()
	if port == "" {
		if strings.HasSuffix(u.Host, ":") {
			return ""
		}
		return host
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return ""
	}
	if u.Scheme == "https" && n == 443 || u.Scheme == "http" && n == 80 {
		return host
	}
	return host + ":" + strconv.FormatUint(n, 10)
}

// parseURL parses the address of a subscription or a topic. why is not empty if the address is invalid or has parts
// that such addresses do not have.
func parseURL(address string) (u *url.URL, why string) {
	u, err := url.Parse(address)
	switch {
	case len(address) > maxEndpoint:
		return nil, "must be at most 2048 bytes long"
	case err != nil || u.Hostname() == "" ||
		strings.ContainsFunc(address, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, "must be a URL"
	case u.User != nil:
		return nil, "must not contain a user name"
	case strings.Contains(address, "#"):
		return nil, "must not contain a fragment"
	}
	return u, ""
}

// CheckEndpoint checks the push address of a device and returns its host. The address must be an https URL with a
// host that Host accepts. Errors are invalid_params and do not repeat the address, because anyone who has it could
// push.
func CheckEndpoint(endpoint string, added []string) (host string, err error) {
	u, why := parseURL(endpoint)
	if why == "" && u.Scheme != "https" {
		why = "must be an https URL"
	}
	if why != "" {
		return "", orchestrator.Errorf(orchestrator.InvalidParams, "endpoint: %s", why)
	}
	if known, _ := Host(u, added); !known {
		return "", orchestrator.Errorf(orchestrator.InvalidParams, "endpoint: %s is not a known push service",
			orchestrator.Clip(u.Host)).
			WithHint("If the server is your own, add its host to the setting signal.push_hosts, which can be changed only on this machine")
	}
	if u.Host != canonicalHost(u) {
		// Our signature names this host, and push services compare it as text.
		return "", orchestrator.Errorf(orchestrator.InvalidParams,
			"endpoint: the host must be in lowercase and without the default port")
	}
	return u.Host, nil
}

// CheckNtfyURL checks the address of an ntfy topic, https://HOST/TOPIC, and returns its host. The host must be
// ntfy.sh or one that was added by hand. For the latter, http is accepted if private networks are allowed. Errors
// are invalid_params.
func CheckNtfyURL(address string, added []string, allowPrivate bool) (host string, err error) {
	u, why := parseURL(address)
	if why != "" || u.RawQuery != "" || u.ForceQuery {
		return "", orchestrator.Errorf(orchestrator.InvalidParams, "url: must be the address of a topic").
			WithHint("Use the form https://ntfy.sh/TOPIC")
	}
	topic, ok := strings.CutPrefix(u.EscapedPath(), "/")
	if !ok || topic == "" || len(topic) > 64 || strings.Trim(topic, "-_"+orchestrator.Alphanumeric) != "" {
		return "", orchestrator.Errorf(orchestrator.InvalidParams,
			"url: the path must be the name of the topic, with 1 to 64 letters, digits, hyphens, or underscores").
			WithHint("Use the form https://ntfy.sh/TOPIC")
	}
	host = canonicalHost(u)
	byHand := host != "" && slices.Contains(added, host)
	switch {
	case u.Scheme != "https" && !(u.Scheme == "http" && byHand && allowPrivate):
		return "", orchestrator.Errorf(orchestrator.InvalidParams, "url: must be an https address").
			WithHint("Use http only for a server in your own network. To allow it, add the host to the setting signal.push_hosts and turn on signal.allow_private; both can be changed only on this machine")
	case !byHand && host != ntfyService:
		return "", orchestrator.Errorf(orchestrator.InvalidParams, "url: %s is not a known server",
			orchestrator.Clip(u.Host)).
			WithHint("If the server is your own, add its host to the setting signal.push_hosts, which can be changed only on this machine")
	}
	return host, nil
}

// ParseHosts parses the setting signal.push_hosts.
func ParseHosts(value string) (hosts []string, err error) {
	for part := range strings.SplitSeq(value, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		host := ""
		if u, err := url.Parse("https://" + part + "/"); err == nil && u.Host == part {
			host = canonicalHost(u)
		}
		if host == "" {
			return nil, orchestrator.Errorf(orchestrator.InvalidParams,
				"%q is not a valid host; use the form push.example.com or 10.0.0.5:8443", orchestrator.Clip(part))
		}
		if !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return hosts, nil
}

// ParseSignalURL parses the setting signal.url: an https address without a path, or an http address of this
// machine, for tests in a browser here.
func ParseSignalURL(value string) (string, error) {
	if value == "" || value == "-" {
		return "", nil
	}
	u, err := url.Parse(value)
	if err != nil || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
		strings.Trim(u.Path, "/") != "" {
		return "", orchestrator.Errorf(orchestrator.InvalidParams, "%q is not a valid address; use the form https://phone.example.com",
			orchestrator.Clip(value))
	}
	ip, err := netip.ParseAddr(u.Hostname())
	here := u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
	if u.Scheme != "https" && !(u.Scheme == "http" && here) {
		return "", orchestrator.Errorf(orchestrator.InvalidParams,
			"%q must begin with https://, because only https pages can receive pushes on a phone",
			orchestrator.Clip(value))
	}
	return strings.ToLower(u.Scheme + "://" + u.Host), nil
}
