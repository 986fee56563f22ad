package orchestrator

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// pushServices are the hosts of the push services that browsers use, and those whose names end so. Endpoints come from
// devices, so that no other host is asked unless somebody added it by hand. Source: signal.md, "Push".
var pushServices = struct{ names, suffixes []string }{
	names:    []string{"fcm.googleapis.com", "updates.push.services.mozilla.com"},
	suffixes: []string{".push.apple.com", ".push.services.mozilla.com", ".notify.windows.com"},
}

// ntfyService is the ntfy server that needs not be added by hand.
const ntfyService = "ntfy.sh"

// maxEndpoint bounds the address of a subscription, in bytes.
const maxEndpoint = 2048

// PushHost reports whether pushes may go to a URL's host: to that of a push service, or to one of those that were added
// by hand, NAME or NAME:PORT. byHand says that it was the latter, which may be in a private network if the settings allow it.
func PushHost(u *url.URL, added []string) (known, byHand bool) {
	name := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if (u.Port() == "" || u.Port() == "443") && (slices.Contains(pushServices.names, name) ||
		slices.ContainsFunc(pushServices.suffixes, func(s string) bool { return strings.HasSuffix(name, s) && len(name) > len(s) })) {
		return true, false
	}
	known = addedByHand(u, added)
	return known, known
}

func addedByHand(u *url.URL, added []string) bool {
	name := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if strings.Contains(name, ":") {
		name = "[" + name + "]"
	}
	return name != "" && (slices.Contains(added, name) || u.Port() != "" && slices.Contains(added, name+":"+u.Port()))
}

// CheckPushEndpoint checks the address at which a device is pushed to, and returns its host: https, at a host that PushHost
// knows. Errors are invalid_params and do not repeat the address, by which anybody could push.
func CheckPushEndpoint(endpoint string, added []string) (host string, err error) {
	refuse := func(why string) (string, error) {
		return "", Errorf(InvalidParams, "endpoint: %s", why)
	}
	if len(endpoint) > maxEndpoint {
		return refuse("it is longer than 2048 bytes")
	}
	u, err := url.Parse(endpoint)
	switch {
	case err != nil || u.Hostname() == "":
		return refuse("it is no URL")
	case u.Scheme != "https":
		return refuse("it is no https URL")
	case u.User != nil:
		return refuse("it has a user name in it")
	case u.Fragment != "":
		return refuse("it has a fragment")
	}
	if known, _ := PushHost(u, added); !known {
		return "", Errorf(InvalidParams, "endpoint: %s is no push service that is known", Clip(u.Host)).
			WithHint("If it is one of yours: mailroom setting set signal.push_hosts %s", Clip(u.Host))
	}
	return strings.ToLower(u.Host), nil
}

// CheckNtfyURL checks the address of an ntfy topic, https://HOST/TOPIC, and returns its host. The host is ntfy.sh or one that
// was added by hand; one of those may be http where private networks are allowed. Errors are invalid_params.
func CheckNtfyURL(address string, added []string, allowPrivate bool) (host string, err error) {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || len(address) > maxEndpoint {
		return "", Errorf(InvalidParams, "url: it is no address of a topic").WithHint("Write it as in https://ntfy.sh/TOPIC")
	}
	if topic := strings.TrimPrefix(u.Path, "/"); topic == "" || strings.Contains(topic, "/") {
		return "", Errorf(InvalidParams, "url: the path must be the topic's name").WithHint("Write it as in https://ntfy.sh/TOPIC")
	}
	byHand := addedByHand(u, added)
	switch {
	case u.Scheme != "https" && !(u.Scheme == "http" && byHand && allowPrivate):
		return "", Errorf(InvalidParams, "url: it is no https address").
			WithHint("http is for a server of your own network: mailroom setting set signal.push_hosts %s, and signal.allow_private on", Clip(u.Host))
	case !byHand && strings.ToLower(u.Host) != ntfyService:
		return "", Errorf(InvalidParams, "url: %s is no server that is known", Clip(u.Host)).
			WithHint("If it is one of yours: mailroom setting set signal.push_hosts %s", Clip(u.Host))
	}
	return strings.ToLower(u.Host), nil
}

// parsePushHosts reads the setting signal.push_hosts.
func parsePushHosts(value string) (hosts []string, err error) {
	for part := range strings.SplitSeq(value, ",") {
		part = strings.ToLower(strings.TrimSpace(part))
		if part == "" {
			continue
		}
		u, err := url.Parse("https://" + part + "/")
		if err != nil || u.Host != part || u.User != nil || u.Hostname() == "" || strings.ContainsAny(part, "/?#*") {
			return nil, Errorf(InvalidParams, "%q is no host, as in push.example.com or 10.0.0.5:8443", Clip(part))
		}
		hosts = append(hosts, part)
	}
	return hosts, nil
}

// parseSignalURL reads the setting signal.url: an https address without a path, or an http one of this machine, which is for
// trying things in a browser here.
func parseSignalURL(value string) (string, error) {
	if value == "" || value == "-" {
		return "", nil
	}
	u, err := url.Parse(value)
	if err != nil || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "" {
		return "", Errorf(InvalidParams, "%q is no address, as in https://phone.example.com", Clip(value))
	}
	ip, err := netip.ParseAddr(u.Hostname())
	here := u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
	if u.Scheme != "https" && !(u.Scheme == "http" && here) {
		return "", Errorf(InvalidParams, "%q does not begin with https://, without which a phone lets no page receive pushes", Clip(value))
	}
	return strings.ToLower(u.Scheme + "://" + u.Host), nil
}

// subscriber is whom push services are told to ask in case of trouble. Source: RFC 8292, part 2.1.
func (s *Settings) subscriber() string {
	if strings.HasPrefix(s.SignalURL, "https://") {
		return s.SignalURL
	}
	return "https://mailroom.invalid"
}
