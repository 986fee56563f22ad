package person

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/push"
	"mailroom/orchestrator/questions"
)

// maxSkew is how far a clock may be off: push services refuse a signature whose end is more than 24 hours away, and a
// device shows a question as over that is not.
const maxSkew = 2 * time.Minute

// Doctor says what is missing between this machine and a phone: the address of the app, the daemon behind it, keys,
// devices and their pushes, the key folder, the clock. It goes on after a check that fails. It reads only, but for the
// push keys, which it makes when there are none; it asks for the app at its address, if the database is trusted. With
// try it pushes a test to every device first.
func Doctor(ctx context.Context, l *ledger.Ledger, try bool) overview.Findings {
	d := &doctor{ledger: l}
	if elsewhere, is := errors.AsType[*orchestrator.Error](Here(ctx, l)); is {
		d.Report("host", overview.Note, elsewhere.Message, elsewhere.Hint)
		return d.Findings
	}
	if try {
		d.trials(ctx)
	}
	d.address(ctx)
	d.pushKeys(ctx)
	d.folder()
	d.devices(ctx)
	d.replies(ctx)
	return d.Findings
}

// trials pushes a test to every device that can be pushed to.
func (d *doctor) trials(ctx context.Context) {
	trials, err := delivery.TryDevices(ctx, d.ledger)
	if err != nil {
		d.Fail("trials", "", err)
	} else if len(trials) == 0 {
		d.Report("trials", overview.Note, "no device to push to",
			"Approve a device, and turn on notifications in its app")
	}
	for _, t := range trials {
		device := strings.TrimPrefix(t.Agent, push.DevicePrefix)
		switch {
		case t.Delivered:
			d.ReportOf("trial", device, overview.Fine, "the push service took a test: it should be on the phone now",
				"")
		case t.MessageID == "" || t.PutOff:
			d.ReportOf("trial", device, overview.Note, "no test arrived: "+t.Says, "")
		default:
			d.ReportOf("trial", device, overview.Problem, "a test did not arrive: "+t.Says, "`mailroom trace "+
				t.MessageID+"` shows the attempt")
		}
	}
}

type doctor struct {
	ledger *ledger.Ledger
	overview.Findings
}

// address checks that phones find the app where the setting says.
func (d *doctor) address(ctx context.Context) {
	const check = "address"
	url, err := questions.SignalURL(ctx, d.ledger)
	switch {
	case err != nil:
		d.Fail(check, "", err)
		return
	case url == "":
		d.Report(check, overview.Problem, "no address is set at which phones reach the app", NoAddressHint)
		return
	case !strings.HasPrefix(url, "https://"):
		d.Report(check, overview.Note, url+" can be reached from this machine only: phones need https", NoAddressHint)
	default:
		d.Report(check, overview.Fine, url, "")
	}
	date, err := fetchManifest(ctx, url)
	if err != nil {
		d.Report("app", overview.Problem, "the app is not at "+url+": "+err.Error(),
			"`mailroom serve --phone ADDRESS` serves it, and what answers at the address must lead there; see docs/phone.md")
		return
	}
	d.Report("app", overview.Fine, "it answers at "+url, "")
	if skew := d.ledger.Now().Sub(date); !date.IsZero() && skew.Abs() > maxSkew {
		d.Report("clock", overview.Problem, fmt.Sprintf("the clock here and the one behind %s are %s apart", url,
			skew.Abs().Round(time.Second)),
			"Set the clock; push services refuse what was signed at another time")
	} else {
		d.Report("clock", overview.Fine, "it agrees with the one that answers at the address", "")
	}
}

// NoAddressHint says how phones get an address of the app.
const NoAddressHint = "A phone takes the app from an https address only: give `mailroom serve --phone` one (Tailscale, Caddy, a tunnel; see docs/phone.md), " +
	"then `mailroom setting set signal.url https://HOST`. To try it in a browser on this machine: `mailroom setting set signal.url http://localhost:PORT`"

// fetchManifest asks for the app's manifest, and returns the time of the answer, if it says one.
func fetchManifest(ctx context.Context, url string) (date time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/manifest.webmanifest", nil)
	if err != nil {
		return date, err
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(request)
	if err != nil {
		return date, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return date, fmt.Errorf("the answer is %s", answer.Status)
	}
	var manifest struct {
		Name string `json:"name"`
	}
	content, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	if err != nil {
		return date, err
	}
	if json.Unmarshal(content, &manifest) != nil || !strings.Contains(strings.ToLower(manifest.Name), "mailroom") {
		return date, errors.New("something else answers there")
	}
	date, _ = http.ParseTime(answer.Header.Get("Date")) // it need not say one
	return date, nil
}

func (d *doctor) pushKeys(ctx context.Context) {
	if _, err := questions.VAPIDPublicKey(ctx, d.ledger); err != nil {
		d.Fail("push keys", "", err)
		return
	}
	d.Report("push keys", overview.Fine, "there", "")
}

// folder checks who can reach the keys, and that of kept alerts.
func (d *doctor) folder() {
	const check = "key folder"
	k, err := openKeys(d.ledger, false)
	if err != nil {
		d.Fail(check, "", err)
		return
	}
	defer k.close()
	if k.root == nil {
		d.Report(check, overview.Fine, "it is made with the first device or question", "")
		return
	}
	err = fs.WalkDir(k.root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			var info fs.FileInfo
			if info, err = entry.Info(); err == nil {
				err = k.check(name, info, 0)
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	})
	if err == nil {
		_, err = k.kept(false)
	}
	if err != nil {
		d.Fail(check, "", err)
		return
	}
	d.Report(check, overview.Fine, "only its owner can reach "+k.path, "")
}

// devices checks each device, and whether there is one at all.
func (d *doctor) devices(ctx context.Context) {
	const check = "devices"
	list, err := questions.Devices(ctx, d.ledger)
	if err != nil {
		d.Fail(check, "", err)
		return
	}
	k, err := openKeys(d.ledger, false)
	if err != nil {
		return // the folder's finding says it
	}
	defer k.close()
	usable := 0
	for i := range list {
		if d.device(ctx, k, &list[i]) {
			usable++
		}
	}
	if usable == 0 {
		d.Report(check, overview.Problem, "no device can read what is encrypted: questions are refused",
			"`mailroom signal pair`, then "+approveHint)
	} else {
		d.Report(check, overview.Fine, fmt.Sprintf("%d can read what is encrypted", usable), "")
	}
}

// approveHint names no fingerprint: one from the table would be that of whoever wrote it there.
const approveHint = "`mailroom signal device approve FINGERPRINT`, with the fingerprint from the phone's screen"

// device checks one device, and reports whether it can read what is encrypted.
func (d *doctor) device(ctx context.Context, k *keys, device *questions.Device) bool {
	switch device.State {
	case questions.DeviceWaiting:
		d.ReportOf("device", device.ID, overview.Note, device.Name+" waits for approval since "+device.CreatedAt,
			"If it is yours: "+approveHint)
		return false
	case questions.DeviceActive:
	default:
		return false
	}
	if device.Kind != questions.DeviceNtfy {
		recipient, err := k.pinned(device)
		if err != nil {
			d.Fail("device", device.ID, err)
			return false
		}
		if recipient == nil {
			d.ReportOf("device", device.ID, overview.Problem, device.Name+
				" is active in the table, but nobody approved it here with the key that it has there: it is not used",
				"If it is yours: "+approveHint+"; otherwise `mailroom signal device revoke "+device.ID+"`")
			return false
		}
	}
	last := "nothing was pushed yet"
	if device.PushedAt != "" {
		last = "the last push, at " + device.PushedAt + ": " + device.PushOutcome
	}
	url, err := questions.SignalURL(ctx, d.ledger)
	switch {
	case device.PushProblem != "" && device.Kind == questions.DeviceNtfy:
		d.ReportOf("device", device.ID, overview.Problem, device.Name+" cannot be pushed to since "+device.PushProblem,
			"Name its topic anew: `mailroom signal ntfy https://HOST/TOPIC`")
	case device.PushProblem != "":
		d.ReportOf("device", device.ID, overview.Problem, device.Name+" cannot be pushed to since "+device.PushProblem,
			"Open the app on it: it subscribes anew")
	case device.Kind == questions.DeviceDesk:
		d.ReportOf("device", device.ID, overview.Fine,
			device.Name+" is a browser, which shows what comes while the console is open in it", "")
	case device.PushHost == "":
		d.ReportOf("device", device.ID, overview.Problem, device.Name+" gets no pushes: it has not subscribed",
			"Open the app on it and allow notifications; on an iPhone, from the home screen")
	case device.PushedAt != "" && device.PushOutcome != "delivered":
		d.ReportOf("device", device.ID, overview.Problem, device.Name+", "+last,
			"`mailroom signal doctor --try` pushes a test")
	case device.Kind == questions.DeviceNtfy && url == "" && err == nil: // otherwise the address's finding says it
		d.ReportOf("device", device.ID, overview.Note, device.Name+" through "+device.PushHost+"; "+last+
			"; its notifications have no buttons and no address, since signal.url is not set",
			"`mailroom setting set signal.url https://HOST`, the address at which phones reach the app")
	default:
		d.ReportOf("device", device.ID, overview.Fine, device.Name+" through "+device.PushHost+"; "+last, "")
	}
	return device.Kind != questions.DeviceNtfy
}

// replies looks for files of questions that are not there, and questions whose answers cannot be opened here.
func (d *doctor) replies(ctx context.Context) {
	const check = "answers"
	k, err := openKeys(d.ledger, false)
	if err != nil {
		return // the folder's finding says it
	}
	defer k.close()
	names, err := k.names(repliesFolder)
	lost, err2 := unanswerable(ctx, d.ledger, k)
	if err = errors.Join(err, err2); err != nil {
		d.Fail(check, "", err)
		return
	}
	orphans := 0
	for _, name := range names {
		if !plainID(name) {
			continue
		}
		if _, err := questions.Get(ctx, d.ledger, name); orchestrator.CodeOf(err) == orchestrator.NotFound {
			orphans++
		}
	}
	if orphans > 0 {
		d.Report(check, overview.Note, fmt.Sprintf("keys of %d questions that were never stored, or are gone", orphans),
			"The daemon removes them; without one, so does the next question")
	}
	if lost > 0 {
		d.Report(check, overview.Problem,
			fmt.Sprintf("%d open questions whose answers cannot be opened here, since their keys are not in %s", lost,
				k.path),
			"Cancel them and ask again: `mailroom signal list`, `mailroom signal cancel ID`")
	}
	if orphans == 0 && lost == 0 {
		d.Report(check, overview.Fine, "every open question has its key", "")
	}
}
