package push

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"mailroom/orchestrator"
)

// The endpoints that a device may and may not name. Requests go to them from this machine.
func TestPushEndpoints(t *testing.T) {
	t.Parallel()
	added := []string{"push.example.com", "autopush.example.com:8443", "192.168.1.5:8443", "[fd00::1]", "127.0.0.1"}
	for endpoint, byHand := range map[string]bool{
		"https://fcm.googleapis.com/fcm/send/abc:DEF":                 false,
		"HTTPS://fcm.googleapis.com/wp/x":                             false,
		"https://web.push.apple.com/QGuQyavXutnMH":                    false,
		"https://a.b.push.apple.com/x":                                false,
		"https://updates.push.services.mozilla.com/wpush/v2/gAAA?x=1": false,
		"https://db5p.notify.windows.com/w/?token=BQYAAA%2f%3d":       false,
		"https://push.example.com/x":                                  true,
		"https://autopush.example.com:8443/":                          true,
		"https://192.168.1.5:8443/x":                                  true,
		"https://[fd00::1]/x":                                         true,
		"https://127.0.0.1/x":                                         true,
	} {
		host, err := CheckEndpoint(endpoint, added)
		u, _ := url.Parse(endpoint)
		if known, got := Host(u, added); err != nil || host != u.Host || !known || got != byHand {
			t.Errorf("%s: at %q, known %v, by hand %v, %v; want %v", endpoint, host, known, got, err, byHand)
		}
	}
	for _, endpoint := range []string{
		"", "x", "/wp/x", "//fcm.googleapis.com/x", "http://fcm.googleapis.com/x", "http://fcm.googleapis.com:443/x",
		"ftp://fcm.googleapis.com/x",
		"https:fcm.googleapis.com/x", "https:///x", "https://:443/x", "javascript:alert(1)", "file:///etc/passwd",
		// other ports, and hosts that extend a known one at either end
		"https://fcm.googleapis.com:80/x", "https://fcm.googleapis.com:8443/x", "https://fcm.googleapis.com:/x",
		"https://fcm.googleapis.com:0/x",
		"https://fcm.googleapis.com:65979/x", "https://web.push.apple.com:22/x", "https://push.example.com:8443/x",
		"https://autopush.example.com/x",
		"https://evilpush.apple.com/x", "https://push.apple.com/x", "https://.push.apple.com/x",
		"https://a..push.apple.com/x",
		"https://push.apple.com.evil.example/x", "https://fcm.googleapis.com.evil.example/x",
		"https://evil.example/fcm.googleapis.com",
		"https://xfcm.googleapis.com/x", "https://evil.fcm.googleapis.com/x", "https://googleapis.com/x",
		"https://notify.windows.com/x",
		"https://fcm.googleapis.com./x", "https://push.example.com./x", "https://sub.push.example.com/x",
		"https://*.push.apple.com/x",
		// not in the form that browsers use
		"https://FCM.googleapis.com/x", "https://fcm.googleapis.com:443/x", "https://push.example.com:443/x",
		"https://Push.Example.com/x",
		"https://autopush.example.com:08443/x", "https://[::ffff:192.168.1.5]:8443/x", "https://[FD00::1]/x",
		"https://[fd00:0::1]/x",
		// URLs that can be parsed in more than one way
		"https://fcm.googleapis.com@evil.example/x", "https://user@fcm.googleapis.com/x",
		"https://@fcm.googleapis.com/x",
		"https://fcm.googleapis.com:443@evil.example/x", "https://evil.example\\@fcm.googleapis.com/x",
		"https://evil.example#@fcm.googleapis.com/x",
		"https://evil.example?@fcm.googleapis.com/x", "https://fcm.googleapis.com%2eevil.example/x",
		"https://fcm.googleapis.com%00.evil.example/x",
		"https://fcm.googleapis.com\t/x", "https://fcm.googleapis.com/\r\nX-Header: 1", " https://fcm.googleapis.com/x",
		"https://fcm.googleapis.com/x#y",
		"https://fcm。googleapis。com/x", "https://ｆcm.googleapis.com/x", "https://fcm.googleapis.com/ä",
		"https://web.push.apple.com,evil.example/x",
		// addresses of this machine and of private networks
		"https://localhost/x", "https://127.0.0.1:8080/x", "https://127.1/x", "https://2130706433/x",
		"https://0x7f000001/x", "https://[::1]/x",
		"https://[::ffff:7f00:2]/x", "https://169.254.169.254/latest/meta-data", "https://[fd00::1%25eth0]/x",
		"https://[fd00::1]:8443/x", "https://fd00::1/x",
		"https://192.168.1.5/x", "https://fcm.googleapis.com/" + strings.Repeat("x", 2048),
	} {
		host, err := CheckEndpoint(endpoint, added)
		if orchestrator.CodeOf(err) != orchestrator.InvalidParams || host != "" {
			t.Errorf("%.80q: %q, %v; want invalid_params", endpoint, host, err)
		}
	}
	if known, _ := Host(&url.URL{Scheme: "http", Host: "fcm.googleapis.com"}, nil); known {
		t.Error("a push service is known without TLS")
	}
	_, err := CheckEndpoint("https://evil.example/the-key-in-the-path", nil)
	if err == nil || strings.Contains(err.Error(), "the-key") || !strings.Contains(err.Error(), "evil.example") {
		t.Errorf("the error must name the host and nothing else: %v", err)
	}
}

func TestNtfyURLs(t *testing.T) {
	t.Parallel()
	added := []string{"ntfy.example.com", "192.168.1.5", "192.168.1.5:8080"}
	for _, test := range []struct {
		url                string
		allowPrivate, good bool
	}{
		{"https://ntfy.sh/mailroom_x-1", false, true},
		{"https://NTFY.sh:443/a", true, true},
		{"https://ntfy.example.com/a", false, true},
		{"https://ntfy.example.com/below/a", false, false},
		{"http://192.168.1.5/a", true, true},
		{"http://192.168.1.5:8080/a", true, true},
		{"http://192.168.1.5/a", false, false},
		{"http://192.168.1.5:8081/a", true, false},
		{"http://ntfy.sh/a", true, false},
		{"http://ntfy.sh:443/a", true, false},
		{"http://ntfy.example.com/a", true, true},
		{"https://evil.ntfy.sh/a", false, false},
		{"https://ntfy.sh", false, false},
		{"https://ntfy.sh/", false, false},
		{"https://ntfy.sh/a/", false, false},
		{"https://ntfy.sh/a,b", false, false},
		{"https://ntfy.sh/a%2Fb%20", false, false},
		{"https://ntfy.sh/a?b", false, false},
		{"https://ntfy.sh/a?", false, false},
		{"https://ntfy.sh/" + strings.Repeat("a", 65), false, false},
		{"https://fcm.googleapis.com/a", false, false},
	} {
		_, err := CheckNtfyURL(test.url, added, test.allowPrivate)
		if (err == nil) != test.good || err != nil && orchestrator.CodeOf(err) != orchestrator.InvalidParams {
			t.Errorf("%s, private allowed %v: %v", test.url, test.allowPrivate, err)
		}
	}
}

func TestParsePushHosts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"":                                       nil,
		" , ,":                                   nil,
		"Push.Example.com":                       {"push.example.com"},
		"a.example:443, a.example ,A.EXAMPLE":    {"a.example"},
		"a.example:8443,10.0.0.1:80,[::1]:8443":  {"a.example:8443", "10.0.0.1:80", "[::1]:8443"},
		"[0:0::1],[::ffff:10.0.0.1]:00080,local": {"[::1]", "10.0.0.1:80", "local"},
	} {
		if got, err := ParseHosts(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{
		"https://a.example", "a.example/", "a.example/x", "*.example", "a b", "user@a.example", "a.example?x",
		"a.example?", "a.example#", "a.example.", ".a", "a..b",
		"a:0", "a:65536", "a:x", "a:", "::1", "[::1", "[fe80::1%25eth0]", "ä.example", "\u212A.example", "a.example,b/",
		"%61.example", strings.Repeat("a", 254),
	} {
		if got, err := ParseHosts(text); orchestrator.CodeOf(err) != orchestrator.InvalidParams {
			t.Errorf("%q: %q, %v; want invalid_params", text, got, err)
		}
	}
}

// FuzzPushEndpoint checks that every accepted endpoint is at one of the hosts, however it is spelled.
func FuzzPushEndpoint(f *testing.F) {
	f.Add("https://fcm.googleapis.com/x")
	f.Add("https://web.push.apple.com:443/x?y")
	f.Add("https://push.example.com:8443/x")
	f.Fuzz(func(t *testing.T, endpoint string) {
		added := []string{"push.example.com:8443"}
		if _, err := CheckEndpoint(endpoint, added); err != nil {
			return
		}
		u, err := url.Parse(endpoint)
		if err != nil {
			t.Fatal(err)
		}
		_, byHand := Host(u, added)
		rest := endpoint[len("https://"):]
		host := rest[:strings.IndexAny(rest+"/", "/?")]
		switch {
		case byHand && host == "push.example.com:8443":
		case !byHand && host == "fcm.googleapis.com":
		case !byHand && slices.ContainsFunc([]string{".push.apple.com", ".push.services.mozilla.com",
			".notify.windows.com"},
			func(suffix string) bool { return strings.HasSuffix(host, suffix) && len(host) > len(suffix) }):
		default:
			t.Errorf("%q is let through, by hand: %v", endpoint, byHand)
		}
	})
}
